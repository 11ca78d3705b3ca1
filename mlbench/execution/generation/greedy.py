"""Greedy decoding."""

from __future__ import annotations

import numpy as np

from mlbench.contracts.generation import Decoding, Prompt
from mlbench.execution.generation.cache import Choices
from mlbench.execution.generation.search import Copies


class Greedy:
    """Unfinished answers, one per slot; implements `Search`."""

    def __init__(self, decoding: Decoding, slots: int) -> None:
        self._decoding = decoding
        self._ends = np.array(decoding.end_tokens, np.int64)
        self._answers = np.zeros((slots, decoding.max_new_tokens), np.int64)
        self._counts = np.zeros(slots, np.int64)
        self._prompts: list[Prompt | None] = [None] * slots
        self._last_of_stop = np.full(slots, -1)
        self.input_ids = np.zeros(slots, np.int64)

    def start(self, slots: list[int], prompts: list[Prompt], choices: Choices) -> list[int]:
        """Begin answers with what follows their prompts."""
        where = np.array(slots)
        self._counts[where] = 0
        for slot, prompt in zip(slots, prompts, strict=True):
            self._prompts[slot] = prompt
            self._last_of_stop[slot] = prompt.stop[-1] if prompt.stop else -1
        forced = np.array([self._has_stopped(slot) for slot in slots])
        return self._put(where, np.where(forced, self._ends[0], self._likeliest(where, choices.tokens)))

    def advance(self, running: np.ndarray, choices: Choices) -> list[int]:
        """Add a token to each running answer."""
        return self._put(running, self._likeliest(running, choices.tokens[running]))

    def copies(self) -> Copies | None:
        """Return None: a sequence stays in its row."""
        return None

    def answer(self, slot: int) -> list[int]:
        """Return the new tokens."""
        tokens: list[int] = self._answers[slot, : self._counts[slot]].tolist()
        return tokens

    def first_tokens(self, slots: list[int]) -> np.ndarray:
        """Return how the answers begin."""
        return self._answers[slots, :1]

    def move(self, source: int, target: int) -> None:
        """Move an answer to another slot."""
        for array in (self._answers, self._counts, self._last_of_stop, self.input_ids):
            array[target] = array[source]
        self._prompts[target] = self._prompts[source]

    def _likeliest(self, slots: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Return the first of the tokens, (n, choices), that each slot may take."""
        is_young = self._counts[slots] < self._decoding.min_new_tokens
        if not is_young.any():
            return tokens[:, 0]
        is_end = (tokens[:, :, None] == self._ends).any(axis=2)  # np.isin takes longer for so few
        is_ruled_out = is_end & is_young[:, None]
        likeliest: np.ndarray = tokens[np.arange(len(tokens)), is_ruled_out.argmin(axis=1)]
        return likeliest

    def _put(self, slots: np.ndarray, chosen: np.ndarray) -> list[int]:
        """Add a token to the answer of each slot; return the slots whose answers have ended."""
        counts = self._counts[slots]
        self._answers[slots, counts] = chosen
        self._counts[slots] = counts + 1
        self.input_ids[slots] = chosen
        is_over = counts + 1 >= self._decoding.max_new_tokens
        for end in self._decoding.end_tokens:
            is_over |= chosen == end
        may_stop = (chosen == self._last_of_stop[slots]) & ~is_over
        if may_stop.any():
            for place in np.flatnonzero(may_stop):
                is_over[place] = self._ends_by_force(int(slots[place]))
        ended: list[int] = slots[is_over].tolist()
        return ended

    def _ends_by_force(self, slot: int) -> bool:
        """Add an end token where the stop sequence is complete."""
        if has_stopped := self._has_stopped(slot):
            self._answers[slot, self._counts[slot]] = self._ends[0]
            self._counts[slot] += 1
        return has_stopped

    def _has_stopped(self, slot: int) -> bool:
        prompt = self._prompts[slot]
        assert prompt is not None
        return prompt.has_stopped(self._answers[slot, : self._counts[slot]])
