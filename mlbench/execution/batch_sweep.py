"""Chooses a batch size by measuring."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

_SIZE_BUDGET_S = 0.3
_REPEATS = 3
_DONE_BELOW = 0.85
_LAST = 2  # one size may be slow by accident: two in a row must be


def best_batch(run: Callable[[Sequence[Any]], None], data: Sequence[Any], largest: int) -> tuple[int, dict[int, float]]:
    """Return the batch with the most samples per second, and the rate of each tried.

    Tries 1, 2, 4, ... up to ``largest``, each at least three times, and stops where two in a row are clearly worse or
    one batch outlasts a second. The samples, sorted by length, are cut from the middle, as a run batches its
    neighbours. A smaller batch is preferred when it is within 2 % of the best: it answers sooner.
    """
    rates: dict[int, float] = {}
    size = 1
    while size <= largest:
        batch = _middle(data, size)
        run(batch)  # the first call may allocate
        seconds = _best_seconds(run, batch)
        rates[size] = size / seconds
        if seconds > 1 or all(rate < _DONE_BELOW * max(rates.values()) for rate in list(rates.values())[-_LAST:]):
            break
        size *= 2
    best = max(rates.values())
    return min(size for size, rate in rates.items() if rate >= 0.98 * best), rates


def _best_seconds(run: Callable[[Sequence[Any]], None], batch: Sequence[Any]) -> float:
    started = time.perf_counter()
    fastest = float("inf")
    tries = 0
    while tries < _REPEATS or (time.perf_counter() - started < _SIZE_BUDGET_S and tries < 10 * _REPEATS):
        before = time.perf_counter()
        run(batch)
        fastest = min(fastest, time.perf_counter() - before)
        tries += 1
        if fastest > 1:
            break
    return fastest


def _middle(data: Sequence[Any], size: int) -> list[Any]:
    start = max(0, (len(data) - size) // 2)
    return list(islice(cycle(data[start:] or data), size))
