"""Beam search with early stopping, token for token equal to ``generate`` of transformers 5 with one sequence per call.

Source: transformers 5, ``GenerationMixin._beam_search`` with ``early_stopping=True`` and ``length_penalty=1.0``. It
leaves open which of two equal scores goes first; here it is the better beam's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mlbench.contracts.generation import Decoding, Prompt
from mlbench.execution.generation.cache import Choices
from mlbench.execution.generation.search import Copies


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An ended answer."""

    score: np.float32
    """Log-probability per new token."""
    tokens: list[int]


class BeamSearch:
    """The best beams of each slot, best first; what `Search` promises.

    A beam has a row of its slot, but not always the same: one that goes on stays in its row, and only one that forks is
    copied, into the row of a beam that was given up. A fork copies no more than the new tokens, since all beams of a
    slot hold the same prompt.
    """

    def __init__(self, decoding: Decoding, slots: int) -> None:
        beams = self._beams = decoding.beams
        self._decoding = decoding
        self._ends = np.array(decoding.end_tokens, np.int64)
        self._scores = np.zeros((slots, beams), np.float32)
        self._answers = np.zeros((slots, beams, decoding.max_new_tokens), np.int64)
        self._counts = np.zeros(slots, np.int64)
        self._prompt_lengths = np.zeros(slots, np.int64)
        self._rows = np.zeros((slots, beams), np.int64)  # of each beam
        self._ended: list[list[Hypothesis]] = [[] for _ in range(slots)]
        self._copies: Copies | None = None
        self.input_ids = np.zeros(slots * beams, np.int64)

    def start(self, slots: list[int], prompts: list[Prompt], choices: Choices) -> list[int]:
        """Fork the beams of each slot from its first row, which holds the prompt."""
        for slot, prompt in zip(slots, prompts, strict=True):
            if prompt.stop:
                raise ValueError("stop sequences are for one beam")
            self._prompt_lengths[slot] = len(prompt.tokens)
            self._ended[slot] = []
        where = np.array(slots)
        self._counts[where] = 0
        self._rows[where] = where[:, None] * self._beams  # so that all forks but one are copies of the first row
        totals = choices.log_probabilities[:, None, :]
        return self._go_on(where, choices.tokens[:, None, :], totals)

    def advance(self, running: np.ndarray, choices: Choices) -> list[int]:
        """Replace each slot's beams by their best continuations."""
        rows = self._rows[running]
        totals = choices.log_probabilities[rows] + self._scores[running][:, :, None]
        return self._go_on(running, choices.tokens[rows], totals)

    def copies(self) -> Copies | None:
        """Return the forks of the last step."""
        copies, self._copies = self._copies, None
        return copies

    def answer(self, slot: int) -> list[int]:
        """Return the new tokens of the best hypothesis."""
        return self._ended[slot][0].tokens

    def first_tokens(self, slots: list[int]) -> None:
        """Return None: the best answer may begin with any beam's first token."""

    def move(self, source: int, target: int) -> None:
        """Move the beams to another slot, whose rows have been copied."""
        for array in (self._scores, self._answers, self._counts, self._prompt_lengths):
            array[target] = array[source]
        beams = self._beams
        self._rows[target] = self._rows[source] + (target - source) * beams
        self.input_ids[target * beams : (target + 1) * beams] = self.input_ids[source * beams : (source + 1) * beams]
        self._ended[target], self._ended[source] = self._ended[source], []

    def _go_on(self, slots: np.ndarray, tokens: np.ndarray, totals: np.ndarray) -> list[int]:
        """Choose among continuations; return the slots whose search is over.

        Args:
            slots: (n,)
            tokens: (n, beams or 1, choices)
            totals: of the same shape: the log-probability of a whole continuation.
        """
        counts = self._counts[slots]
        if (is_young := counts < self._decoding.min_new_tokens).any():
            totals = np.where(np.isin(tokens, self._ends) & is_young[:, None, None], -np.inf, totals)
        flat = totals.reshape(len(slots), -1)
        best = np.argsort(-flat, axis=1, kind="stable")[:, : self._decoding.candidates]  # (n, candidates)
        scores = np.take_along_axis(flat, best, axis=1)
        chosen = np.take_along_axis(tokens.reshape(len(slots), -1), best, axis=1)
        parents = best // tokens.shape[2]
        is_last = counts + 1 >= self._decoding.max_new_tokens
        has_ended = np.isin(chosen, self._ends) | is_last[:, None]
        is_over = is_last
        for place in np.flatnonzero(has_ended[:, : self._beams].any(axis=1)):
            slot = int(slots[place])
            self._keep_ended(slot, has_ended[place], scores[place], parents[place], chosen[place])
            is_over[place] |= len(self._ended[slot]) == self._beams
        if not is_over.all():
            on = ~is_over
            going_on = np.argsort(has_ended[on], axis=1, kind="stable")[:, : self._beams]
            self._fork(
                slots[on], *(np.take_along_axis(each[on], going_on, axis=1) for each in (scores, parents, chosen))
            )
        over: list[int] = slots[is_over].tolist()
        return over

    def _keep_ended(
        self, slot: int, has_ended: np.ndarray, scores: np.ndarray, parents: np.ndarray, chosen: np.ndarray
    ) -> None:
        """Add those of the best candidates that have ended to a slot's hypotheses, and keep the best of all."""
        count, ended = int(self._counts[slot]), self._ended[slot]
        for rank in np.flatnonzero(has_ended[: self._beams]):
            tokens = [*self._answers[slot, parents[rank], :count].tolist(), int(chosen[rank])]
            ended.append(Hypothesis(scores[rank] / np.float32(count + 1), tokens))
        ended.sort(key=lambda hypothesis: hypothesis.score, reverse=True)
        del ended[self._beams :]

    def _fork(self, slots: np.ndarray, scores: np.ndarray, parents: np.ndarray, chosen: np.ndarray) -> None:
        """Replace the beams of slots by continuations of them, (n, beams) each, and note which rows must be copied."""
        counts = self._counts[slots]
        longest = int(counts.max())
        self._answers[slots, :, :longest] = self._answers[slots[:, None], parents, :longest]
        self._answers[slots, :, counts] = chosen
        self._scores[slots] = scores
        rows = np.take_along_axis(self._rows[slots], parents, axis=1)
        # a beam stays in its parent's row unless a better one does
        is_copy = np.tril(rows[:, :, None] == rows[:, None, :], -1).any(axis=2)
        if is_copy.any():
            own = slots[:, None] * self._beams + np.arange(self._beams)
            is_used = (own[:, :, None] == rows[:, None, :]).any(axis=2)
            unused = np.take_along_axis(own, np.argsort(is_used, axis=1, kind="stable"), axis=1)
            places = np.take_along_axis(unused, np.maximum(np.cumsum(is_copy, axis=1) - 1, 0), axis=1)
            self._copies = self._plan_copies(slots, counts, is_copy, rows, places)
            rows = np.where(is_copy, places, rows)
        self._rows[slots] = rows
        self.input_ids[rows] = chosen
        self._counts[slots] = counts + 1

    def _plan_copies(
        self, slots: np.ndarray, counts: np.ndarray, is_copy: np.ndarray, rows: np.ndarray, places: np.ndarray
    ) -> Copies:
        """Return the copies from rows to places: of the columns in which the beams of a slot can differ."""
        forks = is_copy.any(axis=1)
        prompts = self._prompt_lengths[slots[forks]]
        is_start = not counts.any()
        columns = range(0 if is_start else int(prompts.min()), int((prompts + counts[forks]).max()))
        return Copies(rows[is_copy].tolist(), places[is_copy].tolist(), columns)
