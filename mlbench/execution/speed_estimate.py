"""A rough estimate of an engine's speed: enough to configure LoadGen, never a result."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass

from mlbench.contracts.engine import Engine, Samples
from mlbench.errors import InvalidRunError
from mlbench.execution.awaited_reply import AwaitedReply

BUDGET_S = 1.0
"""Seconds that each part of `measure_speed` takes: enough to choose a rate by."""

_QUERIES = 30
_LONG_S = 10.0  # queries that take so long are timed once
_CROWD_S = 20.0
_TIMES_EACH = 8  # that a sample is asked for at most, of many together
_MOST_TOGETHER = 1_000_000
_GROWS = 1.2  # a rate that grows by less when the load is doubled is saturated


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedEstimate:
    """The results of a short trial of the engine."""

    latency_ns: int
    """The median time of a query alone."""
    fastest_ns: int
    """The least."""
    rate_per_s: float
    """Samples per second, many at once."""
    together_s: float = 0.0
    """How long the longest query of many samples took; 0: there was none."""
    saturated_per_s: float | None = None
    """The same at saturation, where it was measured; see `measure_saturated_speed`."""
    is_plateau: bool = False
    """Whether twice as many samples at once had about the same rate."""
    is_tested: bool = False
    """Whether a whole test was checked instead of this trial alone."""

    @property
    def sustained_per_s(self) -> float:
        """Samples per second of a stream of single samples: saturated if known, otherwise one after another."""
        return self.saturated_per_s or 1e9 / self.latency_ns

    def with_seen(self, seen_per_s: float | None, *, is_saturated: bool) -> SpeedEstimate:
        """Return it with a rate that a test showed, if that is higher; None: it showed none.

        ``is_saturated``: where saturation was not measured, take it for that.
        """
        if seen_per_s is None:
            return self
        saturated_per_s = seen_per_s if is_saturated and self.saturated_per_s is None else self.saturated_per_s
        return dataclasses.replace(
            self, rate_per_s=max(self.rate_per_s, seen_per_s), saturated_per_s=saturated_per_s, is_tested=True
        )


def measure_speed(
    engine: Engine, samples: Samples, query_size: int, timeout_s: float, *, budget_s: float = BUDGET_S
) -> SpeedEstimate:
    """Time single queries of ``query_size`` samples, then as many samples together as take as long again.

    Each part takes about ``budget_s``. Where one query takes longer than that, its time is the rate.

    Raises:
        InvalidRunError: a sample failed, or was not answered within ``timeout_s``.
    """
    alone = measure_single_queries(engine, samples, query_size, timeout_s, budget_s=budget_s)
    many = min(_TIMES_EACH * len(samples), int(budget_s * 1e9 / alone.latency_ns * query_size))
    if many <= query_size:
        return alone
    rate_per_s = _rate_together(engine, samples, many, timeout_s)
    return dataclasses.replace(alone, rate_per_s=rate_per_s, together_s=many / rate_per_s)


def measure_longer(
    pace: SpeedEstimate, engine: Engine, samples: Samples, timeout_s: float, *, seconds: float
) -> SpeedEstimate:
    """Return a speed with that of many samples together, timed for about so many seconds.

    Where samples take microseconds `measure_speed` times many of them for a fraction of a second. The higher of the two
    rates counts. Nothing is timed where that was at least half as long, and nothing for longer than a quarter of
    ``timeout_s``.

    Raises:
        InvalidRunError: as `measure_speed`.
    """
    seconds = min(seconds, timeout_s / 4)
    many = min(_MOST_TOGETHER, round(seconds * pace.rate_per_s))
    if many <= 1 or pace.together_s >= seconds / 2:
        return pace
    rate_per_s = _rate_together(engine, samples, many, timeout_s)
    return dataclasses.replace(pace, rate_per_s=max(pace.rate_per_s, rate_per_s), together_s=many / rate_per_s)


def measure_single_queries(
    engine: Engine, samples: Samples, query_size: int, timeout_s: float, *, budget_s: float = BUDGET_S
) -> SpeedEstimate:
    """Time queries of ``query_size`` samples, one after another, for about ``budget_s``; the rate is theirs.

    Raises:
        InvalidRunError: as `measure_speed`.
    """
    latencies_ns: list[int] = []
    started_s = time.monotonic()
    while _is_too_few(len(latencies_ns), time.monotonic() - started_s, budget_s):
        first = len(latencies_ns) * query_size
        query = samples.at([(first + offset) % len(samples) for offset in range(query_size)])
        latencies_ns.append(_answer_ns(engine, query, timeout_s))
    fastest_ns, latency_ns = min(latencies_ns), sorted(latencies_ns)[len(latencies_ns) // 2]
    return SpeedEstimate(latency_ns=latency_ns, fastest_ns=fastest_ns, rate_per_s=query_size / (latency_ns / 1e9))


def measure_saturated_speed(
    pace: SpeedEstimate, engine: Engine, samples: Samples, timeout_s: float, *, enough_s: float = float("inf")
) -> SpeedEstimate:
    """Return the speed of a generation engine with its saturated rate: it answers many samples in little more time.

    Doubles the load as long as that raises the rate and takes only seconds. Where it does not, fewer samples than there
    are suffice if they took ``enough_s``.

    Raises:
        InvalidRunError: as `measure_speed`.
    """
    many, best_per_s, started_s, is_plateau = 1, 1e9 / pace.latency_ns, time.monotonic(), False
    while many < _TIMES_EACH * len(samples) and time.monotonic() - started_s < _CROWD_S:
        many *= 2
        per_s = _rate_together(engine, samples, many, timeout_s)
        before_per_s, best_per_s = best_per_s, max(best_per_s, per_s)
        is_plateau = per_s < _GROWS * before_per_s and (many > len(samples) or many / per_s >= enough_s)
        if is_plateau:
            break
    rate_per_s = max(pace.rate_per_s, best_per_s)
    return dataclasses.replace(pace, rate_per_s=rate_per_s, saturated_per_s=best_per_s, is_plateau=is_plateau)


def _is_too_few(queries: int, elapsed_s: float, budget_s: float) -> bool:
    """Return whether more queries are to be timed after so many in so long."""
    if queries < 3:
        return not queries or elapsed_s < _LONG_S
    return queries < _QUERIES and elapsed_s < budget_s


def _rate_together(engine: Engine, samples: Samples, many: int, timeout_s: float) -> float:
    """Return the samples per second of one query of so many, the given ones over and over."""
    together = samples.at([position % len(samples) for position in range(many)])
    return many / (_answer_ns(engine, together, timeout_s) / 1e9)


def _answer_ns(engine: Engine, samples: Samples, timeout_s: float) -> int:
    """Return how long the engine takes to answer these samples."""
    numbered = Samples(list(range(len(samples))), samples.indices, samples.dataset)
    reply = _TimedReply(len(samples))
    started_ns = time.perf_counter_ns()
    engine.submit(numbered, reply)
    engine.flush()
    reply.check(timeout_s)
    return time.perf_counter_ns() - started_ns


class _TimedReply(AwaitedReply):
    """Waits until all samples are answered, or one failed."""

    def fail(self, samples: Samples, reason: str) -> None:
        """Stop waiting."""
        super().invalidate(f"a sample failed in warm-up: sample {samples.indices[0]}: {reason}")

    def invalidate(self, reason: str) -> None:
        """Stop waiting."""
        super().invalidate(f"warm-up failed: {reason}")

    def check(self, timeout_s: float) -> None:
        """Block until all are answered; raise `InvalidRunError` where they are not."""
        if not self.wait(timeout_s):
            raise InvalidRunError(
                f"{self.left} samples unanswered after {timeout_s:g} s of warm-up.",
                hint="Raise load.stall_timeout_s if the model is that slow.",
            )
        if self.failure:
            raise InvalidRunError(f"{self.failure}.")
