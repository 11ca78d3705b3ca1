"""The state of a device during a test, in words."""

from __future__ import annotations

from mlbench.records.machine.telemetry import DeviceTelemetryRecord
from mlbench.reports.units import with_prefix


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
