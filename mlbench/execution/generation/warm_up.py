"""Warm-up: chooses the number of slots, and times calls."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.generation import Decoding
from mlbench.errors import UsageError
from mlbench.execution.batch_sweep import BatchChoice, choose_batch, mixture, run_for
from mlbench.execution.generation.admission import Costs
from mlbench.execution.generation.cache import Cache
from mlbench.execution.generation.slots import step_up

logger = logging.getLogger(__name__)

_REPEATS = 5
_UNTRIED = 8
"""Default number of slots, without a setting or a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The results of the warm-up."""

    slots: int
    costs: Costs = field(default_factory=Costs)
    sweep: BatchChoice | None = None
    """By number of sequences; None without a sweep."""


def prepare_slots(cache: Cache, decoding: Decoding, plan: EnginePlan, prompts: Sequence[int]) -> Prepared:
    """Choose the number of slots where the plan leaves it open, take memory for them, and time calls.

    Args:
        cache: is left with room for as many prompts of the longest length given.
        decoding: of the program.
        plan: asks for a number of slots, or for a sweep.
        prompts: lengths of typical prompts.

    Raises:
        UsageError: there is not enough memory for the plan's slots.
    """
    length = min(max(prompts) + decoding.max_new_tokens, cache.longest)
    positions = sorted(min(prompt, cache.longest - 1) for prompt in prompts)
    slots = _reserve_memory(cache, decoding, plan, length)

    def decode(sequences: Sequence[int]) -> None:
        rows = len(sequences) * decoding.beams
        if rows > cache.rows:
            cache.drop()  # its contents are not needed, and memory may not suffice for two
            cache.reserve(rows, length)
        # prompts of all lengths, as in a run: the longest decides how many columns a step looks at
        cache.decode(np.zeros(rows, np.int64), np.repeat(mixture(positions, len(sequences)), decoding.beams))

    sweep = None
    if _is_open(plan):
        cache.drop()  # a backend that keeps no state copies the whole cache in each call
        sweep = choose_batch(lambda part, seconds: run_for(partial(decode, part), seconds), range(slots), slots)
        slots, rates = sweep.batch, {size: round(rate) for size, rate in sweep.rates.items()}
        logger.info("%d slots, of %s tokens/s; rounds that chose: %s", slots, rates, sweep.rounds)
        cache.drop()
        cache.reserve(slots * decoding.beams, length)
    for size in sorted({min(step_up(count), slots) for count in range(1, slots + 1)}):
        decode(range(size))
    usual = positions[len(positions) // 2]
    costs = _costs(cache, lambda: decode(range(slots)), plan.prefill_tokens, usual)
    return Prepared(slots=slots, sweep=sweep, costs=costs)


def default_slots(cache: Cache, decoding: Decoding, plan: EnginePlan) -> Prepared:
    """Return the number of slots for an engine that was not warmed up.

    Raises:
        UsageError: the graphs take fewer rows than the plan asks for.
    """
    most = cache.limits.rows // decoding.beams
    if plan.batch == "auto" and plan.batching == "inline":
        return Prepared(slots=1)
    if plan.batch == "auto":
        return Prepared(slots=min(_UNTRIED, plan.largest_batch, most))
    if plan.batch > most:
        raise UsageError(f"execution.batch is {plan.batch}.", hint=f"The graphs take {most} sequences at most.")
    return Prepared(slots=plan.batch)


def _is_open(plan: EnginePlan) -> bool:
    """Return whether to search for the number of slots; where samples come one at a time, there is no need."""
    return plan.batch == "auto" and plan.batching != "inline"


def _reserve_memory(cache: Cache, decoding: Decoding, plan: EnginePlan, length: int) -> int:
    """Take memory for the slots of the plan, or for half as many until it suffices."""
    is_open = _is_open(plan)
    slots = (
        min(plan.largest_batch, cache.limits.rows // decoding.beams)
        if is_open
        else default_slots(cache, decoding, plan).slots
    )
    while reason := cache.reserve(slots * decoding.beams, length):
        if not is_open or slots == 1:
            raise UsageError(
                f"execution.batch is {plan.batch}: {reason}.", hint="Lower it, or free memory on the device."
            )
        slots //= 2
    return slots


def _costs(cache: Cache, decode: Callable[[], None], most_tokens: int, usual: int) -> Costs:
    """Time a decode step, and reading prompts of two lengths."""
    long = min(usual, most_tokens, cache.limits.piece_tokens)
    short = max(1, long // 8)

    def prefill(tokens: int) -> None:
        zero = np.zeros(1, np.int64)
        cache.prefill(np.zeros((1, tokens), np.int64), zero, zero, np.array([tokens - 1]))

    # a short prompt's time is that of a call with few tokens, a long one's per token the most that a token may cost:
    # where a busy machine blurs both, neither is absurd
    short_ns, long_ns = _fastest_ns(lambda: prefill(short)), _fastest_ns(lambda: prefill(long))
    return Costs(decode_ns=_fastest_ns(decode), prefill_ns=short_ns, prefill_token_ns=max(short_ns, long_ns) / long)


def _fastest_ns(call: Callable[[], None]) -> int:
    call()
    fastest = []
    for _ in range(_REPEATS):
        started_ns = time.perf_counter_ns()
        call()
        fastest.append(time.perf_counter_ns() - started_ns)
    return max(1, min(fastest))
