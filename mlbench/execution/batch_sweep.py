"""Chooses a batch size by measuring."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from statistics import median
from typing import Any

from mlbench.execution.processes.processor_waits import thread_waited_ns

_SIZE_BUDGET_S = 0.15
_REPEATS = 3
_LONG_TRIES_S = 0.3  # two tries suffice where they take so long: what disturbs a moment is little of it
_DONE_BELOW = 0.85
_LAST = 2  # one size may be slow by accident: two in a row must be
_NEARLY_BEST = 0.98
_TRY_S, _ROUND_S = 0.01, 0.05
_AGREEING = 3
_MOST_ROUNDS = 9
_ROUNDS_BUDGET_S = 2.0

Run = Callable[[Sequence[Any], float], float]
"""Runs a batch on all workers at the same time, each over and over by itself for so many seconds and once at least;
returns the batches per second of all."""

Cut = Callable[[Sequence[Any], int], list[Any]]
"""Takes a batch of a size from samples that are sorted by length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChoice:
    """A batch size, and the measurements that it was chosen by."""

    batch: int
    rates: Mapping[int, float] = field(default_factory=dict)
    """Samples per second of all workers, by batch size."""
    rounds: Mapping[int, int] = field(default_factory=dict)
    """How many rounds of measurements would have chosen each size: one size alone, if the choice is sure."""


def neighbours(data: Sequence[Any], size: int) -> list[Any]:
    """Return samples of similar length, from the middle: a batch of a run that sorts what it batches."""
    start = max(0, (len(data) - size) // 2)
    return list(islice(cycle(data[start:] or data), size))


def mixture(data: Sequence[Any], size: int) -> list[Any]:
    """Return samples of all lengths, spread evenly: a batch of a run that takes samples as they come."""
    return [data[(2 * place + 1) * len(data) // (2 * size)] for place in range(size)]


def choose_batch(  # noqa: PLR0913 - what is tried, and how
    run: Run,
    data: Sequence[Any],
    largest: int,
    *,
    longest_s: float = math.inf,
    workers: int = 1,
    cut: Cut = neighbours,
) -> BatchChoice:
    """Return the batch with the most samples per second.

    Tries 1, 2, 4, ... up to ``largest``, each three times or for a tenth of a second or two, twice where a batch takes
    that long; a try of a short batch is many calls. Stops where two in a row are clearly worse than the best, also
    right beside it, for the machine may have been busy; where one batch outlasts a second; or before one that outlasts
    ``longest_s`` in two tries. Sizes that came near the best, or may have hit a busy machine, are then timed
    alternately until three rounds in a row choose the same. A smaller batch is preferred when it is within 2 % of the
    best: it answers sooner.

    Args:
        run: as it will run: on each of the ``workers``, none of which waits for another.
        data: samples sorted by length.
        largest: no batch is larger.
        longest_s: no batch takes longer, but for the smallest.
        workers: on how many it runs.
        cut: which samples are a batch: such as the run will batch, since one long sample makes a whole batch long.
    """
    sweep = _Sweep(run, data, workers, cut)
    sweep.try_sizes(largest, longest_s)
    return sweep.compare(sweep.near_best())


class _Sweep:
    """The rates that were measured so far."""

    def __init__(self, run: Run, data: Sequence[Any], workers: int, cut: Cut) -> None:
        self._run, self._data, self._workers, self._cut = run, data, workers, cut
        self._first: dict[int, float] = {}
        self._unsure = set[int]()

    def try_sizes(self, largest: int, longest_s: float) -> None:
        """Time ever larger batches, until they are clearly slower or too slow."""
        size = 1
        while size <= largest:
            batch = self._cut(self._data, size)
            seconds = _best_seconds(partial(self._seconds, batch), longest_s)
            if size > 1 and seconds > longest_s:
                break
            self._first[size] = self._workers * size / seconds
            if seconds > 1 or self._is_past_the_best():
                break
            size *= 2

    def _is_past_the_best(self) -> bool:
        """Return whether the last sizes are clearly worse than the best, also when measured next to it."""
        best = max(self._first, key=self._first.__getitem__)
        last = list(self._first)[-_LAST:]
        if any(self._first[size] >= _DONE_BELOW * self._first[best] for size in last):
            return False
        now = {size: self._rate(size) for size in (best, *last)}
        if all(now[size] < _DONE_BELOW * now[best] for size in last):
            return True
        self._unsure.update(last)
        return False

    def near_best(self) -> list[int]:
        """Return the sizes that may be the best."""
        least = _DONE_BELOW * max(self._first.values())
        return [size for size, rate in self._first.items() if rate >= least or size in self._unsure]

    def compare(self, sizes: Sequence[int]) -> BatchChoice:
        """Time sizes alternately: where the machine is busy for a moment, all of them are slow."""
        rates, chosen = {size: [self._first[size]] for size in sizes}, [_smallest_of_best(self._first)]
        started_s = time.perf_counter()
        while len(sizes) > 1 and not _is_settled(chosen) and time.perf_counter() - started_s < _ROUNDS_BUDGET_S:
            this_round = {size: self._rate(size) for size in (sizes if len(chosen) % 2 else sizes[::-1])}
            for size, rate in this_round.items():
                rates[size].append(rate)
            chosen.append(_smallest_of_best({size: median(found) for size, found in rates.items()}))
        found = self._first | {size: median(each) for size, each in rates.items()}
        return BatchChoice(batch=chosen[-1], rates=found, rounds=dict(sorted(Counter(chosen).items())))

    def _seconds(self, batch: Sequence[Any], least_s: float) -> float:
        """Return the seconds that a batch takes on a worker, by a try that lasts so long at least."""
        return self._workers / self._run(batch, least_s)

    def _rate(self, size: int) -> float:
        """Return the samples per second of a moment, whatever else happened in it."""
        return size * self._run(self._cut(self._data, size), _ROUND_S)


def _smallest_of_best(rates: Mapping[int, float]) -> int:
    best = max(rates.values())
    return min(size for size, rate in rates.items() if rate >= _NEARLY_BEST * best)


def _is_settled(chosen: Sequence[int]) -> bool:
    return len(chosen) >= _MOST_ROUNDS or (len(chosen) >= _AGREEING and len(set(chosen[-_AGREEING:])) == 1)


def _best_seconds(run_s: Callable[[float], float], longest_s: float) -> float:
    """Return the least time of a batch in some tries, each as long as ``run_s`` is asked for and a batch at least.

    The first call may allocate: where the next is as long, it is a try too.
    """
    first = run_s(0)
    started = time.perf_counter()
    fastest = math.inf
    tries = 0
    while tries < _REPEATS or (time.perf_counter() - started < _SIZE_BUDGET_S and tries < 10 * _REPEATS):
        fastest = min(fastest, run_s(_TRY_S))
        tries += 1
        is_long = fastest > longest_s or time.perf_counter() - started > _LONG_TRIES_S
        if fastest > 1 or (tries > 1 and is_long) or min(first, fastest) > _LONG_TRIES_S / 2:
            break
    return min(first, fastest)


def run_for(run: Callable[[], object], seconds: float, *, owns_core: bool = False) -> float:
    """Run a batch over and over for so many seconds, and once at least; return the batches per second.

    With ``owns_core``, time in which this thread waited for a processor does not count: other work had it.
    """
    calls, took_s, started_s = 0, 0.0, time.perf_counter()
    waited_ns, ran_s = thread_waited_ns(), time.thread_time()
    while not calls or took_s < seconds:
        run()
        calls += 1
        took_s = time.perf_counter() - started_s
    if owns_core:
        waited_s = (thread_waited_ns() - waited_ns) / 1e9
        took_s = time.perf_counter() - started_s  # the time of every wait that is counted
        ran_s = time.thread_time() - ran_s  # it took no less than that, whatever the kernel counts as waiting
        took_s = min(took_s, max(took_s - waited_s, ran_s))
    return calls / took_s
