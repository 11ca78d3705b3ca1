"""Times of new content, compared with the same content again and with the measurement."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.metric import LoggedReply
from mlbench.execution.variations import Change, Variation, can_change, size_bytes
from mlbench.measurement.asking import Answers, ask
from mlbench.measurement.evidence import BurstBegins, BurstEnds, TimedAnswer
from mlbench.measurement.spot_contents import CHANCE, Asked
from mlbench.rules.answers import LEAST_KNOWN, MOST_CLAIMED, MOST_REPEATED

ROUNDS = 7
"""Number of timings before an engine fails; one, if there is no evidence against it."""

_PAUSE_S = 0.5
SHORT_NS = 5_000_000
"""A burst answered faster cannot be timed."""
TOO_FAST = "answers come too fast to be timed"

_ENOUGH_NS = 30_000_000
_LEAST_QUERIES, _MOST_QUERIES = 3, 243
_SMALL_BURST = 256
_LARGE_BURST = 16 * _SMALL_BURST
"""Where answers come fast, a burst grows up to this size, until it can be timed."""
_TOLD, _TOLD_S = 32, 1.0
"""Least samples of a burst where they take no longer."""
_KEPT, _KEPT_BYTES = 32, 4 << 20
"""Answers of a round that are scored, and how many bytes they may have in all."""
_UNTOLD = 256
"""Default number of samples that keep an engine busy; one that needs more is at most a few times slower."""

_MOST_BYTES = 512 << 20
"""Most memory of a burst's varied samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The facts of the performance test that are needed here."""

    samples_per_s: float
    query: int | None
    """Samples of a query, where one is sent after the answer to the last; None: they come as they like."""
    budget_s: float
    """Time limit of a burst, by the measured speed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The result of timing."""

    repeated: float | None = None
    claimed: float | None = None
    reason: str = ""
    """Reason for a missing figure."""
    answers: Sequence[TimedAnswer] = ()
    """Some of those to new content, of each round."""
    failed: Sequence[int] = ()
    """New content that was not answered, by the index of what it was made of."""


def times(asked: Asked, measured: Measured, kept: Mapping[int, LoggedReply], bases: Sequence[int]) -> Times:
    """Time new content and the same content again, alternately; more than once only on evidence against the engine.

    Args:
        asked: the engine.
        measured: the test before.
        kept: replies to samples as they are, by index.
        bases: indices of samples that variations can be made of.
    """
    is_generated = isinstance(asked.model.program, GenerationProgram)
    if not is_generated and not can_change(asked.look_at(bases[0]), Change.STRONG):
        return Times(reason="these samples cannot be changed")
    size, is_full = _burst(asked, measured, bases)
    timing = _PairedTiming(asked, measured, kept, list(islice(cycle(bases), size)))
    units = sum(asked.tokens_of(reply).size for reply in kept.values()) / len(kept) if is_generated else 1.0
    speed = measured.samples_per_s * units
    repeated, claimed, longest_ns = float("inf"), float("inf"), 0
    answers: list[TimedAnswer] = []
    for number in range(ROUNDS):
        time.sleep(_PAUSE_S * number)
        again_ns, new_ns, new = timing.round()
        answers += timing.some_of(new)
        if new.is_whole and not (new_ns and again_ns):
            break  # by a clock that does not move; the parent has another one
        if not new.is_whole:
            return Times(failed=timing.failed(new), reason="new content was not answered", answers=answers)
        longest_ns = max(longest_ns, new.lasted_ns)
        repeated, claimed = min(repeated, new_ns / again_ns), min(claimed, speed * new_ns / 1e9)
        if repeated < MOST_REPEATED and not (is_full and claimed >= MOST_CLAIMED):
            break
    if longest_ns < SHORT_NS:
        return Times(reason=TOO_FAST, answers=answers)
    return Times(repeated=repeated, claimed=claimed if is_full else None, answers=answers)


class _PairedTiming:
    """Rounds with the same samples: once as they are, once as new content of the same make."""

    def __init__(self, asked: Asked, measured: Measured, kept: Mapping[int, LoggedReply], bases: Sequence[int]) -> None:
        self._asked = asked
        self._query = measured.query
        self._bases = list(bases)
        self._answers = {base: asked.tokens_of(kept[base]).tolist() for base in set(bases)}
        self._given = [CHANCE.randint(1, max(1, len(self._answers[base]) // 2)) for base in self._bases]
        self._is_generated = isinstance(asked.model.program, GenerationProgram)
        self._is_first = True
        self._is_constant = len({reply.data for reply in kept.values()}) == 1  # no answer tells new content from known
        self._dtype = np.dtype(asked.model.program.reply.dtype).newbyteorder("<")
        most = _MOST_QUERIES * measured.query if measured.query else _LARGE_BURST
        self._most = min(most, _fitting(asked, bases))
        self._variations: list[Variation] = []

    def round(self) -> tuple[float, float, Answers]:
        """Return the time of a sample, or a token, for known and for new content, and the answers to the latter."""
        new = self._ask_new()
        while new.lasted_ns < _ENOUGH_NS and self._may_grow(new) and new.is_whole:
            self._bases, self._given = 3 * self._bases, 3 * self._given
            new = self._ask_new()
        again = self._ask(self._asked.dataset, self._bases, "again")
        return self._unit_ns(again), self._unit_ns(new), new

    def _may_grow(self, new: Answers) -> bool:
        """Return whether a larger burst fits, and whether the largest could be timed."""
        count = len(self._bases)
        return 3 * count <= self._most and new.lasted_ns * self._most > count * SHORT_NS

    def some_of(self, new: Answers) -> list[TimedAnswer]:
        """Return some of the answers to new content, chosen now."""
        found: list[TimedAnswer] = []
        if self._is_constant:
            return found
        room = _KEPT_BYTES
        for place in CHANCE.sample(range(len(self._variations)), min(_KEPT, len(self._variations))):
            output, variation = new.outputs[place], self._variations[place]
            if output is None or output.nbytes > room:
                continue
            room -= output.nbytes
            data = np.ascontiguousarray(output).astype(self._dtype, copy=False).tobytes().hex()
            found.append(
                TimedAnswer(
                    base=variation.base,
                    change=str(variation.change),
                    seed=variation.seed,
                    continuation=list(variation.continuation),
                    data=data,
                )
            )
        return found

    def failed(self, answers: Answers) -> list[int]:
        """Return the bases of what was not answered."""
        return [base for base, output in zip(self._bases, answers.outputs, strict=True) if output is None]

    def _ask_new(self) -> Answers:
        """Send unseen content of the lengths of every round: a new length may cost an engine time once."""
        variations = {
            next(self._asked.new_indices): self._variation(base, given)
            for base, given in zip(self._bases, self._given, strict=True)
        }
        self._is_first, self._variations = False, list(variations.values())
        return self._ask(self._asked.vary(variations), list(variations), "new")

    def _variation(self, base: int, given: int) -> Variation:
        seed = CHANCE.getrandbits(32)
        if not self._is_generated:
            return Variation(base=base, change=Change.STRONG, seed=seed)
        # a prompt out of order may be answered at great length: only where the first burst is not enough
        change = Change.NONE if self._is_first else Change.STRONG
        return Variation(base=base, change=change, seed=seed, continuation=tuple(self._answers[base][:given]))

    def _ask(self, dataset: Dataset, indices: Sequence[int], kind: str) -> Answers:
        self._asked.note(BurstBegins(kind=kind))
        answers = ask(self._asked.engine, dataset, indices, query=self._query, timeout_s=self._asked.timeout_s)
        self._asked.note(BurstEnds(kind=kind, lasted_ns=answers.lasted_ns))
        return answers

    def _unit_ns(self, answers: Answers) -> float:
        units = answers.tokens if self._is_generated else len(answers.outputs)
        return answers.lasted_ns / units if units else 0.0


def _burst(asked: Asked, measured: Measured, bases: Sequence[int]) -> tuple[int, bool]:
    """Return how many samples to ask at a time, and whether the engine can be as fast on them as on very many."""
    affordable = max(_told(measured), int(measured.budget_s * measured.samples_per_s))
    if measured.query:
        least = max(_LEAST_QUERIES, _told(measured) // measured.query)
        return max(1, min(least, affordable // measured.query)) * measured.query, True
    capacity = asked.engine.capacity()
    most = capacity.in_flight if capacity else _UNTOLD
    wanted = max(most, min(_SMALL_BURST, int(measured.samples_per_s * _ENOUGH_NS / 1e9)))
    size = min(max(wanted, _told(measured)), affordable, _fitting(asked, bases))
    return size, size >= most


def _told(measured: Measured) -> int:
    """Return how many answers should be there to be scored: not every change moves the right one."""
    return max(LEAST_KNOWN, min(_TOLD, int(measured.samples_per_s * _TOLD_S)))


def _fitting(asked: Asked, bases: Sequence[int]) -> int:
    """Return how many varied samples there is room for."""
    return max(1, _MOST_BYTES // max(1, size_bytes(asked.look_at(bases[0]))))
