"""New content with known answers: samples under other indices, changed slightly, or prompts continued."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from statistics import median
from typing import Any

import numpy as np

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.metric import LoggedReply
from mlbench.contracts.model import Model
from mlbench.execution.variations import Change, Variation, can_change
from mlbench.measurement.asking import ask
from mlbench.measurement.evidence import BurstBegins, BurstEnds
from mlbench.rules.answers import LEAST_FIRST_TOKEN_STEPS, LEAST_RIGHT

TRIES = 3
"""Number of sets of samples before an engine fails; one, if all answers are right."""

CHANCE = random.SystemRandom()
"""A random generator that no plugin can predict."""

_LEAST_SINGLES, _MOST_SINGLES = 2, 8
_MOST_PROMPTS = 4
"""Most prompts of a set, since each is sent alone."""

_POOL = 16
"""Number of answers that one is compared with: its own must be the nearest."""

ROUNDING = 1e-6
"""Distance that the order of sums in fp32 explains: answers that are no farther apart count as one."""

_LEAST_ANSWER = 4
"""Tokens of an answer that can be continued."""

_LEFT = 5
"""Remaining tokens of an answer whose beginning is in the prompt: few, to keep it cheap."""

Vary = Callable[[Mapping[int, Variation]], Dataset]
"""Makes variations in the engine's process; the samples they are made of are loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The engine to test."""

    engine: Engine
    dataset: Dataset
    """Holds the samples, loaded, where the engine finds them, and perhaps not here."""
    vary: Vary
    look_at: Callable[[int], Any]
    """Returns a loaded sample, here."""
    model: Model
    timeout_s: float
    """How long an answer may take."""
    new_indices: count[int]
    """Indices that no sample has had."""
    note: Callable[[BurstBegins | BurstEnds], None] = lambda burst: None
    """Reports a burst to the parent, which times it by its own clock."""

    def tokens_of(self, reply: LoggedReply) -> np.ndarray:
        """Return the elements of a logged reply."""
        return np.frombuffer(reply.data, np.dtype(self.model.program.reply.dtype).newbyteorder("<"))


@dataclass(slots=True, kw_only=True)
class Known:
    """Results for new content of one kind."""

    kind: str
    asked: int = 0
    wrong: list[int] = field(default_factory=list)

    @property
    def share(self) -> float:
        """Return how many of those asked are right."""
        return 1 - len(self.wrong) / self.asked if self.asked else 1.0

    def note(self, base: int, *, is_right: bool) -> None:
        """Count an answer to what was made of a sample."""
        self.asked += 1
        self.wrong += [] if is_right else [base]


@dataclass(slots=True, kw_only=True)
class Contents:
    """Results for new content of each kind, since an engine may be right about all but one."""

    moved: Known = field(default_factory=lambda: Known(kind="under other indices"))
    changed: Known = field(default_factory=lambda: Known(kind="changed by less than rounding"))
    continued: Known = field(default_factory=lambda: Known(kind="continued by their answers"))
    steps: list[float] = field(default_factory=list)
    """Time to a first token in steps, the median of each set."""

    @property
    def worst(self) -> Known:
        """Return the kind with the fewest right answers."""
        return min((self.moved, self.changed, self.continued), key=lambda known: (known.share, -known.asked))

    @property
    def is_good(self) -> bool:
        """Whether there is no evidence against the engine."""
        is_late_enough = not self.steps or max(self.steps) >= LEAST_FIRST_TOKEN_STEPS
        return is_late_enough and self.worst.share >= LEAST_RIGHT


def can_continue(asked: Asked, reply: LoggedReply) -> bool:
    """Return whether an answer can be continued: it has some tokens, and the model has positions for more."""
    program = asked.model.program
    assert isinstance(program, GenerationProgram)
    sample, tokens = asked.look_at(reply.index), asked.tokens_of(reply)
    if program.prompt(sample) is not sample:
        return False  # a sample of another form, which cannot be continued here
    decoding = program.decoding
    return (
        len(tokens) >= _LEAST_ANSWER and len(sample.tokens) + len(tokens) + decoding.max_new_tokens <= decoding.longest
    )


def contents(asked: Asked, kept: Mapping[int, LoggedReply], bases: Sequence[int], *, most: int) -> Contents:
    """Send variations with known answers, until all are right or the sets are used up.

    Args:
        asked: the engine.
        kept: replies to samples as they are, by index.
        bases: indices of samples that variations can be made of.
        most: how many variations of a kind may be asked in one set.
    """
    found, singles = Contents(), max(_LEAST_SINGLES, min(_MOST_SINGLES, most))
    program = asked.model.program
    for _ in range(TRIES):
        chosen = CHANCE.sample(bases, min(singles, len(bases)))
        if not isinstance(program, GenerationProgram):
            _ask_alike(asked, kept, chosen, found)
        elif program.decoding.beams == 1:
            _ask_continued(asked, kept, chosen[:_MOST_PROMPTS], found)
        if found.is_good:
            break
    return found


def _ask_alike(asked: Asked, kept: Mapping[int, LoggedReply], chosen: Sequence[int], found: Contents) -> None:
    """Ask for samples changed slightly, under new indices, and for samples under each other's indices.

    The answer to each must be nearer to its content's than to all others.
    """
    pool = {index: asked.tokens_of(kept[index]) for index in [*chosen, *list(kept)[:_POOL]]}
    variations = {one: Variation(base=other) for one, other in zip(chosen, [*chosen[1:], chosen[0]], strict=True)}
    if can_change(asked.look_at(chosen[0]), Change.SLIGHT):
        for base in chosen:
            new = Variation(base=base, change=Change.SLIGHT, seed=CHANCE.getrandbits(32))
            variations[next(asked.new_indices)] = new
    answers = ask(asked.engine, asked.vary(variations), list(variations), timeout_s=asked.timeout_s)
    for variation, output in zip(variations.values(), answers.outputs, strict=True):
        known = found.moved if variation.change is Change.NONE else found.changed
        known.note(variation.base, is_right=output is not None and _is_nearest(output, pool, variation.base))


def _ask_continued(asked: Asked, kept: Mapping[int, LoggedReply], chosen: Sequence[int], found: Contents) -> None:
    """Ask for prompts with the beginning of their answers behind them, one at a time: the rest must follow."""
    steps = []
    for base in chosen:
        tokens, index = asked.tokens_of(kept[base]).tolist(), next(asked.new_indices)
        given = max(len(tokens) // 2 + 1, len(tokens) - _LEFT)
        variation = Variation(base=base, continuation=tuple(tokens[:given]))
        answers = ask(asked.engine, asked.vary({index: variation}), [index], timeout_s=asked.timeout_s)
        output, first_ns = answers.outputs[0], answers.first_ns[0]
        is_right = output is not None and output.size > 0 and bool(output.ravel()[0] == tokens[given])
        found.continued.note(base, is_right=is_right)
        if output is not None and output.size > 2 and first_ns is not None and first_ns < answers.lasted_ns:
            steps.append(first_ns * (output.size - 1) / (answers.lasted_ns - first_ns))
    if len(steps) >= _LEAST_SINGLES:
        found.steps.append(median(steps))


def _is_nearest(output: np.ndarray, pool: Mapping[int, np.ndarray], own: int) -> bool:
    """Return whether no answer of the pool is nearer to an output than its own, but for rounding."""
    flat = output.ravel()
    from_own = distance(flat, pool[own]) - ROUNDING
    return all(from_own <= distance(flat, other) for other in pool.values())


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Return how far two answers are apart: in their common part, relative to its size, and in length."""
    common, longest = min(one.size, other.size), max(one.size, other.size, 1)
    left, right = (each[:common].astype(np.float64) for each in (one, other))
    scale = np.abs(left).sum() + np.abs(right).sum()
    apart = float(np.abs(left - right).sum() / scale) if scale else 0.0
    return apart + (longest - common) / longest
