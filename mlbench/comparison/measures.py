"""The measures by which runs are compared: one or two numbers, each with a direction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from mlbench.records.run_record import ResultRecord, RunRecord

_SAME_LOAD = 0.01
_UNLIKE_NEIGHBOURS = 0.25
"""Share of the processors; beyond it a mean of processor time moved by up to 22 % (docs/processor-time.md)."""
_TOKEN_LATENCIES = {
    "TTFT": "first_token_{percent:.2f}_percentile_latency",
    "TPOT": "time_per_output_token_{percent:.2f}_percentile",
}
_DEFAULT_PERCENTILE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measured number of one run."""

    name: str
    value: float
    unit: str
    higher_is_better: bool
    kind: str = "speed"
    """The name of its `kinds.MeasureKind`."""
    partner: str = ""
    """Id of the run that it was measured side by side with; empty: by itself."""
    ratio: float = 1.0
    """The number divided by the partner's, as measured side by side."""


def measures_of(record: RunRecord) -> Iterator[Measure]:
    """Yield the measures of a completed run, as numbers above zero.

    Its result; where the scenario says so, a percentile of the latency instead, or those of first token and time per
    token where the workload is judged by them: in Server the rate is what was asked for, not what the system can do.
    Where power was measured, also the energy of a sample; runs that were measured by different meters share no such
    measure.
    """
    yield from speeds_of(record)
    if record.energy and record.energy.joules_per_sample and record.energy.joules_per_sample > 0:
        yield Measure(
            name=f"energy per sample ({record.energy.source}: {record.energy.covers})",
            value=record.energy.joules_per_sample,
            unit="J",
            higher_is_better=False,
        )


def speeds_of(record: RunRecord) -> Iterator[Measure]:
    """Yield those of `measures_of` that are speeds."""
    result = record.result
    if result is None or result.value is None or result.value <= 0:
        return
    if record.scenario_facts.compared_by == "result":
        yield Measure(
            name="throughput" if result.higher_is_better else "latency",
            value=result.value,
            unit=result.unit,
            higher_is_better=result.higher_is_better,
        )
        return
    for name, value in _latencies(result, record.scenario_facts.percentile or _DEFAULT_PERCENTILE).items():
        if value > 0:
            yield Measure(name=name, value=value, unit="ns", higher_is_better=False)


def _latencies(result: ResultRecord, percentile: float) -> Mapping[str, int]:
    """Return the percentile of the times of tokens where these were measured, else of the latency, by name."""
    percent = 100 * percentile
    keys = {name: key.format(percent=percent) for name, key in _TOKEN_LATENCIES.items()}
    found = {name: result.latency_ns[key] for name, key in keys.items() if key in result.latency_ns}
    named = found or {"latency": result.percentile_ns(percentile) or 0}
    return {f"{_ordinal(percent)} percentile {name}": value for name, value in named.items()}


def _ordinal(percent: float) -> str:
    """Return 99 as ``99th``, 91 as ``91st``, 99.9 as ``99.9th``."""
    text = f"{percent:g}"
    ending = "" if text.endswith(("11", "12", "13")) else text[-1]
    return text + {"1": "st", "2": "nd", "3": "rd"}.get(ending, "th")


def why_not_counted(record: RunRecord) -> str:
    """Return the reason why a run's speed cannot be compared; empty if it can."""
    if record.failure:
        return f"failed ({record.failure.kind} during {record.failure.stage})"
    if record.verdict and not record.verdict.is_valid:
        return "INVALID: " + ", ".join(rule.rule for rule in record.verdict.rules if rule.required and not rule.passed)
    if record.result and record.result.value is not None and record.result.value <= 0:
        return f"its result is {record.result.value:g} {record.result.unit}"
    return ""


def why_loads_differ(records: Sequence[RunRecord]) -> str:
    """Return the reason why latencies of runs at a rate cannot be compared; empty if they can."""
    rates = [rate for record in records if (rate := record.arrivals_per_s) is not None]
    if not rates or max(rates) <= (1 + _SAME_LOAD) * min(rates):
        return ""
    return (
        f"these runs were sent from {min(rates):.6g} to {max(rates):.6g} queries/s, and latencies at different loads "
        "cannot be compared; set load.target_qps"
    )


def why_neighbours_differ(base: Sequence[RunRecord], new: Sequence[RunRecord]) -> str:
    """Return the reason why processor time of runs of different days cannot be compared; empty if it can.

    Neighbours use the same caches and memory, so work takes longer beside them.
    """
    one, other = other_load_of(base), other_load_of(new)
    if one is None or other is None or abs(one - other) <= _UNLIKE_NEIGHBOURS:
        return ""
    return (
        f"other load took {one:.0%} of the processors in the base and {other:.0%} on the new side, which changes "
        "processor time; interleave runs of both sides"
    )


def other_load_of(records: Sequence[RunRecord]) -> float | None:
    """Return the median share of the processors that other load took beside runs; None where it is unknown."""
    shares = [record.other_work.share for record in records if record.other_work]
    return median(shares) if shares else None


def is_crowded(records: Sequence[RunRecord]) -> bool:
    """Return whether other load took so much of the processors beside runs that wall time says little about them."""
    return (other_load_of(records) or 0.0) > _UNLIKE_NEIGHBOURS


def is_under_like_load(record: RunRecord, share: float | None) -> bool:
    """Return whether other load took about that share beside a run too, as far as it is known.

    Sessions on a crowded machine do not show how much those on a quiet one differ.
    """
    return not record.other_work or share is None or abs(record.other_work.share - share) <= _UNLIKE_NEIGHBOURS
