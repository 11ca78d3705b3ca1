"""A curve of throughput against latency: the results of its runs, as points, as a table and as JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mlbench.errors import IncomparableRunsError
from mlbench.records.machine.used_accelerators import count_used_accelerators
from mlbench.records.run_record import RunRecord
from mlbench.reports.units import duration, rough_time, three_digits

if TYPE_CHECKING:
    from mlbench.tuner.curve import CurveLeft

_SAMPLE, _FIRST, _TOKEN = (
    "{}.00_percentile_latency",
    "first_token_{}.00_percentile_latency",
    "time_per_output_token_{}.00_percentile",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveTimes:
    """Two percentiles of a time; null where LoadGen logs none."""

    p90_ns: int | None
    p99_ns: int | None

    def text(self) -> str:
        """Return both: ``12.3 ms / 45.6 ms``."""
        return " / ".join("-" if each is None else duration(each) for each in (self.p90_ns, self.p99_ns))


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """The results of the runs at one rate: medians of the valid ones; if none is valid, of all."""

    rate_per_s: float | None
    """Rate of arrivals; null: all samples at once."""
    unit: str
    per_device: float | None
    """Throughput per accelerator used; without accelerators, of the whole system."""
    low: float | None
    high: float | None
    """Largest ``per_device`` of the runs; ``low`` is the smallest."""
    per_user: float | None
    """Tokens/s that one user sees, from the 90th percentile of TPOT. Null without tokens."""
    latency: CurveTimes
    ttft: CurveTimes
    problem: str
    """Reason why the point is not valid; empty if it is."""
    is_accurate: bool | None
    """Whether all were accurate; null where not scored."""
    runs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the point in tables."""
        return "all at once" if self.rate_per_s is None else f"{self.rate_per_s:g}/s"

    @property
    def times(self) -> CurveTimes:
        """Return the latency that a user sees: TTFT where tokens are measured, else that of the answer."""
        return self.ttft if self.ttft.p99_ns is not None else self.latency


def curve_points(records: Iterable[RunRecord]) -> list[CurvePoint]:
    """Return the points of the runs of one system: all at once first, then by ascending rate."""
    grouped: dict[float | None, list[RunRecord]] = {}
    for each in records:
        grouped.setdefault(each.arrivals_per_s, []).append(each)
    return [_point(rate, grouped[rate]) for rate in sorted(grouped, key=lambda rate: rate or 0.0)]


def is_dominated(point: CurvePoint, points: Sequence[CurvePoint]) -> bool:
    """Return whether another valid point is at least as good in throughput and in latency."""
    others = [each for each in points if each is not point and not each.problem and each.rate_per_s is not None]
    return any(_is_better(each, point) for each in others)


def table_rows(points: Sequence[CurvePoint]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each point, under `headings`."""
    has_tokens = any(each.per_user is not None for each in points)
    for each in points:
        spread = f"{three_digits(each.low)} to {three_digits(each.high)}" if each.low and each.high else "-"
        yield (
            each.name,
            "-" if each.per_device is None else f"{three_digits(each.per_device)} {each.unit}",
            spread if len(each.runs) > 1 else "1 run",
            *(["-" if each.per_user is None else three_digits(each.per_user)] if has_tokens else []),
            each.times.text() if each.rate_per_s is not None else "-",
            each.problem or ("dominated" if is_dominated(each, points) else "valid"),
            {True: "met", False: "missed", None: "-"}[each.is_accurate],
        )


def headings(points: Sequence[CurvePoint]) -> tuple[str, ...]:
    """Return the headings of `table_rows`."""
    if any(each.per_user is not None for each in points):
        return "load", "per device", "repeats", "tokens/s per user", "TTFT p90 / p99", "counts", "accuracy"
    return "load", "per device", "repeats", "latency p90 / p99", "counts", "accuracy"


def curve_lines(points: Sequence[CurvePoint]) -> Iterator[str]:
    """Yield the table as lines."""
    rows = [headings(points), *table_rows(points)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def curve_json(points: Sequence[CurvePoint], *, missing: int, made: int) -> str:
    """Return the curve for other programs."""
    rows = [asdict(each) | {"is_dominated": is_dominated(each, points)} for each in points]
    return json.dumps({"points": rows, "made": made, "missing": missing}, indent=2)


def curve_plan_line(name: str, runs: int, left: CurveLeft) -> str:
    """Return the plan of a curve: its number of runs, rates and duration."""
    rates = f" at {', '.join(f'{rate:g}' for rate in left.rates_per_s)}/s and all at once" if left.rates_per_s else ""
    first = "" if left.rates_per_s else " The first run, with all samples at once, determines the rates."
    there = f"; {left.stored} are stored" if left.stored else ""
    time = f"about {rough_time(left.seconds)}" if left.seconds else "nothing is left to measure"
    return f"{name}: {runs} runs{rates}{there}: {time}.{first}"


def _point(rate_per_s: float | None, records: Sequence[RunRecord]) -> CurvePoint:
    good = [each for each in records if each.verdict and each.verdict.is_valid and each.result]
    shown = good or [each for each in records if each.result]
    values = [each.result.value / _devices(each) for each in shown if each.result and each.result.value is not None]
    per_token = _times(shown, _TOKEN).p90_ns if rate_per_s is not None else None
    return CurvePoint(
        rate_per_s=rate_per_s,
        unit=shown[0].result.unit if shown and shown[0].result else "",
        per_device=statistics.median(values) if values else None,
        low=min(values, default=None),
        high=max(values, default=None),
        per_user=1e9 / per_token if per_token else None,
        latency=_times(shown, _SAMPLE),
        ttft=_times(shown, _FIRST),
        problem="" if good else _problem(records[-1]),
        is_accurate=_accuracy(records),
        runs=tuple(each.run_id for each in records),
    )


def _is_better(one: CurvePoint, other: CurvePoint) -> bool:
    if other.problem or other.rate_per_s is None or one.per_device is None or other.per_device is None:
        return False
    if one.per_user is not None and other.per_user is not None:
        found, theirs = (one.per_device, one.per_user), (other.per_device, other.per_user)
    else:
        found, theirs = (one.per_device, -(one.times.p99_ns or 0)), (other.per_device, -(other.times.p99_ns or 0))
    return found != theirs and found[0] >= theirs[0] and found[1] >= theirs[1]


def _devices(record: RunRecord) -> int:
    try:
        return count_used_accelerators(record) or 1
    except IncomparableRunsError:  # it is not known, and the whole system counts as one
        return 1


def _times(records: Sequence[RunRecord], key: str) -> CurveTimes:
    def middle(percent: int) -> int | None:
        found = [each.result.latency_ns.get(key.format(percent)) for each in records if each.result]
        known = [ns for ns in found if ns]
        return round(statistics.median(known)) if known else None

    return CurveTimes(p90_ns=middle(90), p99_ns=middle(99))


def _accuracy(records: Sequence[RunRecord]) -> bool | None:
    known = [each.verdict.is_accurate for each in records if each.verdict and each.verdict.is_accurate is not None]
    return all(known) if known else None


def _problem(record: RunRecord) -> str:
    if record.failure:
        return f"failed: {record.failure.kind}"
    rules = [each for each in record.verdict.rules if each.required and not each.passed] if record.verdict else []
    broken = [each.rule for each in rules if each.kind == "performance"]
    return f"INVALID: {broken[0]}" if broken else "INVALID"
