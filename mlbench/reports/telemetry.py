"""The state of a device during a test, and the speed of a language model while its slots are in use, in words."""

from __future__ import annotations

from mlbench.contracts.rules import Tokens
from mlbench.contracts.statistics import GenerationStatistics
from mlbench.records.machine.telemetry import DeviceTelemetryRecord
from mlbench.records.run_record import RunRecord
from mlbench.reports.units import quantity, with_prefix


def describe_device(found: DeviceTelemetryRecord) -> str:
    """Return the state of a device during the test, without the quantities that it does not show."""
    clock, least, heat, power = found.clock_mhz, found.lowest_clock_mhz, found.highest_temperature_c, found.mean_power_w
    shown = [
        "" if clock is None or least is None else f"{clock:,.0f} MHz, {least:,.0f} at the least",
        "" if heat is None else f"{heat:.0f} °C at the most",
        "" if power is None else f"{power:,.0f} W",
        "" if found.mean_busy is None else f"{found.mean_busy:.0%} busy",
        "" if found.most_memory_bytes is None else f"{with_prefix(found.most_memory_bytes, 'B')} of memory in use",
        f"processes beside the run's: {found.strangers}" if found.strangers else "",
        found.throttled_in_words.removeprefix(f"{found.device} "),
    ]
    return ", ".join(filter(None, shown))


def steady_speed(record: RunRecord) -> str:
    """Return the speed while samples waited for a slot; empty if none waited, or samples came over time.

    In samples where the rules count a fixed number of tokens for each, since the result's tokens are not the answers'.
    """
    engine = record.engine
    if not isinstance(engine, GenerationStatistics) or not record.scenario_facts.sends_all_at_once:
        return ""
    is_inferred = record.limits.get("tokens") == Tokens.INFERRED
    per_s = engine.steady_samples_per_s if is_inferred else engine.steady_tokens_per_s
    return quantity(per_s, "samples/s" if is_inferred else "tokens/s") if per_s else ""
