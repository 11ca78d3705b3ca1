"""How good the rates are that the search of ``mlbench tune`` finds, and how long it takes: a queue in virtual time.

One queue, log-normal service of 1 ms on average, 99 % of the queries within 10 ms, full runs of 600 s that are valid by
the rule of early stopping; the speed wobbles from run to run. Compared with LoadGen's FindPeakPerformance, simulated as
LoadGen does it: doubles from a rate that passes, then bisects to 0.1 queries/s, by full runs judged by the percentile.

Usage: python benchmarks/tune_rate.py [--seeds 40] [--checks 60]
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass

import numpy as np

from mlbench.rules.early_stopping import misses_allowed
from mlbench.toolkit.rate_search import RateFound, RateGoal, RateNotFound, RateObservation, RateSearch, RateTrial

LIMIT_S, SERVICE_S, SIGMA = 0.010, 0.001, 0.3
FULL_S, PROBE_S = 600.0, 60.0
NOISES = (0.0, 0.005, 0.01)
OFTEN = 0.95
"""A rate that holds is valid in this share of repeats."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a simulated run came to."""

    answered: int
    late: int
    seconds: float
    is_ended: bool


class Queue:
    """A queue whose speed wobbles from run to run; its clock counts the time that runs take."""

    def __init__(self, rng: np.random.Generator, noise: float) -> None:
        self._rng = rng
        self._noise = noise
        self.clock_s = 0.0
        self.runs = 0

    def run(self, rate_per_s: float, queries: int, most_late: float = np.inf) -> Ran:
        """Send queries at a rate; the run ends once more than ``most_late`` were late."""
        speed = 1 + self._noise * self._rng.standard_normal()
        service = self._rng.lognormal(-(SIGMA**2) / 2, SIGMA, queries) * (SERVICE_S / speed)
        arrivals = np.cumsum(self._rng.exponential(1 / rate_per_s, queries))
        served = np.cumsum(service)
        done = served + np.maximum.accumulate(arrivals - served + service)
        late = done - arrivals > LIMIT_S
        count, answered, seconds = int(late.sum()), queries, float(arrivals[-1])
        is_ended = count > most_late
        if is_ended:
            answered = int(np.searchsorted(np.cumsum(late), most_late, side="right")) + 1
            count, seconds = int(late[:answered].sum()), float(done[answered - 1])
        self.clock_s += seconds
        self.runs += 1
        return Ran(answered, count, seconds, is_ended)

    def is_valid(self, rate_per_s: float) -> bool:
        """Make a full run, and return whether it is valid."""
        queries = round(rate_per_s * FULL_S)
        return self.run(rate_per_s, queries).late <= misses_allowed(queries, 0.99)


def tune(queue: Queue, start_per_s: float) -> RateFound | RateNotFound:
    """Let the search of ``mlbench tune`` drive the queue."""
    search = RateSearch(goal=goal(), start_per_s=start_per_s)
    while isinstance(step := search.next_step(), RateTrial):
        ran = queue.run(step.rate_per_s, step.queries, step.end_at_late_share * step.queries)
        search = search.with_observation(
            RateObservation(
                rate_per_s=step.rate_per_s,
                is_full=step.is_full,
                answered=ran.answered,
                late=ran.late,
                is_valid=not ran.is_ended and ran.late <= misses_allowed(step.queries, 0.99),
            )
        )
    return step


def goal() -> RateGoal:
    """Return what is looked for here."""
    return RateGoal(percentile=0.99, full_s=FULL_S, full_queries=838, probe_s=PROBE_S, probe_queries=2000)


def find_peak(queue: Queue, start_per_s: float) -> float:
    """Search as LoadGen's FindPeakPerformance does."""

    def passes(rate_per_s: float) -> bool:
        queries = round(rate_per_s * FULL_S)
        return queue.run(rate_per_s, queries).late <= 0.01 * queries

    low, high = start_per_s, 2 * start_per_s
    while passes(high):
        low, high = high, 2 * high
    while high - low > 0.1:
        middle = (low + high) / 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Odds:
    """How often a full run is valid, by its rate: from many repeats at each of some rates, straight between them."""

    rates_per_s: np.ndarray
    shares: np.ndarray

    @classmethod
    def measure(cls, noise: float, checks: int) -> Odds:
        """Make so many repeats at each rate."""
        queue, rates_per_s = Queue(np.random.default_rng(10_000), noise), np.arange(705.0, 786.0, 5.0)
        shares = [statistics.fmean(queue.is_valid(rate) for _ in range(checks)) for rate in rates_per_s]
        return cls(rates_per_s, np.minimum.accumulate(shares))

    def at(self, rate_per_s: float) -> float:
        """Return how often a run at a rate is valid."""
        return float(np.interp(rate_per_s, self.rates_per_s, self.shares))

    @property
    def holding_per_s(self) -> float:
        """Return the highest rate that is valid in 95 % of repeats."""
        return float(np.interp(-OFTEN, -self.shares, self.rates_per_s))


def report(noise: float, seeds: int, checks: int) -> str:
    """Return what came out at this noise, as a row."""
    odds = Odds.measure(noise, checks)
    rates, clocks, runs, peaks, peak_clocks, lost = [], [], [], [], [], 0
    for seed in range(seeds):
        queue = Queue(np.random.default_rng(seed), noise)
        found = tune(queue, 0.75 / SERVICE_S)
        if isinstance(found, RateNotFound):
            lost += 1
            continue
        rates.append(found.rate_per_s)
        clocks.append(queue.clock_s)
        runs.append(queue.runs)
        if seed % 4 == 0:
            other = Queue(np.random.default_rng(1000 + seed), noise)
            peaks.append(find_peak(other, 1.0))
            peak_clocks.append(other.clock_s)
    low, middle, high = np.percentile(rates, [5, 50, 95]) / odds.holding_per_s
    time, peak_time = statistics.median(clocks), statistics.median(peak_clocks)
    return (
        f"| {noise:.1%} | {odds.holding_per_s:.1f}/s | {middle:.3f}, {low:.3f} to {high:.3f} "
        f"| {statistics.fmean(map(odds.at, rates)):.1%} | {statistics.fmean(runs):.1f} | {time:,.0f} s "
        f"| {statistics.median(peaks) / odds.holding_per_s:.3f} | {statistics.fmean(map(odds.at, peaks)):.0%} "
        f"| {peak_time:,.0f} s | {time / peak_time:.1%} | {lost} |"
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--checks", type=int, default=60, help="Repeats at each rate that say how often it is valid.")
    parser.add_argument("--noise", type=float, nargs="+", default=NOISES, help="Wobbles of the speed, as shares.")
    given = parser.parse_args()
    print(
        "| noise | valid in 95 % | tuned over it: median, p5 to p95 | valid again | runs | time "
        "| FindPeak over it | valid again | time | tuned / FindPeak | not found |\n|" + "---|" * 11
    )
    for noise in given.noise:
        print(report(noise, given.seeds, given.checks), flush=True)


if __name__ == "__main__":
    main()
