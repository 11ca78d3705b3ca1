"""What of a run is compared: one or two numbers, each with a direction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlbench.records.run_record import RunRecord

_SAME_LOAD = 0.01
_TOKEN_LATENCIES = {
    "99th percentile TTFT": "first_token_99.00_percentile_latency",
    "99th percentile TPOT": "time_per_output_token_99.00_percentile",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A measured number of one run."""

    name: str
    value: float
    unit: str
    higher_is_better: bool


def measures_of(record: RunRecord) -> Iterator[Measure]:
    """Yield what a completed run is compared by.

    Its result; in Server the 99th percentile of the latency instead, or those of first token and time per token where
    the workload is judged by them, since the rate is what was asked for, not what the system can do. Where power was
    measured, also the energy of a sample; runs that were measured by different meters share no such measure.
    """
    yield from _speeds(record)
    if record.energy and record.energy.joules_per_sample:
        yield Measure(
            name=f"energy per sample ({record.energy.source}: {record.energy.covers})",
            value=record.energy.joules_per_sample,
            unit="J",
            higher_is_better=False,
        )


def _speeds(record: RunRecord) -> Iterator[Measure]:
    result = record.result
    if result is None or result.value is None:
        return
    if record.scenario != "Server":
        yield Measure(
            name="throughput" if result.higher_is_better else "latency",
            value=result.value,
            unit=result.unit,
            higher_is_better=result.higher_is_better,
        )
        return
    tokens = {name: result.latency_ns[key] for name, key in _TOKEN_LATENCIES.items() if key in result.latency_ns}
    one = {"99th percentile latency": result.latency_ns.get("99.00_percentile_latency", 0)}
    for name, value in (tokens or one).items():
        if value > 0:
            yield Measure(name=name, value=value, unit="ns", higher_is_better=False)


def why_not_counted(record: RunRecord) -> str:
    """Return why a run's speed is no number to compare; empty when it is."""
    if record.failure:
        return f"failed ({record.failure.kind} during {record.failure.stage})"
    if record.verdict and not record.verdict.is_valid:
        return "INVALID: " + ", ".join(rule.rule for rule in record.verdict.rules if rule.required and not rule.passed)
    return ""


def why_loads_differ(records: Sequence[RunRecord]) -> str:
    """Return why the latencies of Server runs do not compare; empty when they do, and in the other scenarios."""
    rates = [rate for record in records if (rate := _arrival_rate(record)) is not None]
    if not rates or max(rates) <= (1 + _SAME_LOAD) * min(rates):
        return ""
    return (
        f"these runs were sent from {min(rates):.6g} to {max(rates):.6g} queries/s, and latencies at different loads "
        "do not compare; set load.target_qps"
    )


def _arrival_rate(record: RunRecord) -> float | None:
    """Return the arrivals per second that a Server run was sent; None in the other scenarios."""
    rate = record.load.get("target_qps")
    return float(rate) if record.scenario == "Server" and isinstance(rate, int | float) else None
