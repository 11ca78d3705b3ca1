"""The state of a machine's devices while a run was measured, as sensors read it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from mlbench.records.machine.other_work import Share
from mlbench.records.stored import Count, Stored

TELEMETRY_FILE = "telemetry.csv"
"""In the run folder: each reading of each device."""

_NOTICEABLE = 0.05
"""Share of the time for which a run's line mentions that a device was throttled."""

_CLOCKS_DIFFER = 0.03
"""Share by which clocks differ that a comparison mentions."""


class DeviceTelemetryRecord(Stored):
    """The readings of one device during the performance test; null stands for a quantity that it does not show."""

    device: str
    sensor: str
    readings: Count
    clock_mhz: float | None
    """The median."""
    lowest_clock_mhz: float | None
    highest_temperature_c: float | None
    mean_power_w: float | None
    mean_busy: float | None
    """Share of the time in which it computed, for whomever."""
    most_memory_bytes: Count | None
    throttled: dict[str, Share]
    """Share of the readings in which its clock was lowered, by reason; empty where none was."""
    strangers: Count | None
    """Most processes at once that used it and were not the run's."""

    @property
    def throttled_in_words(self) -> str:
        """Return ``GPU 0 throttled 12% of the time for heat``; empty where that is seldom or never."""
        if max(self.throttled.values(), default=0.0) < _NOTICEABLE:
            return ""
        reasons = " and ".join(f"{share:.0%} of the time for {reason}" for reason, share in self.throttled.items())
        return f"{self.device} throttled {reasons}"


class TelemetryRecord(Stored):
    """All of them, and their cost."""

    seconds: float
    """From the first to the last reading."""
    processor_share: Share
    """Share of one processor's time that reading took, in a process that is not the run's."""
    devices: list[DeviceTelemetryRecord]

    @property
    def throttled_in_words(self) -> list[str]:
        """That of each device that was noticeably throttled."""
        return [words for each in self.devices if (words := each.throttled_in_words)]


def describe_clocks(base: Sequence[TelemetryRecord | None], new: Sequence[TelemetryRecord | None]) -> Iterator[str]:
    """Yield each device whose clock on the new side differs from that in the base by more than 3 %, in words."""
    ours, theirs = _clocks(base), _clocks(new)
    for device, one in ours.items():
        other = theirs.get(device, one)
        if abs(other / one - 1) > _CLOCKS_DIFFER:
            yield f"the clock of {device} was {other:,.0f} MHz on the new side, {one:,.0f} MHz in the base"


def _clocks(side: Sequence[TelemetryRecord | None]) -> dict[str, float]:
    """Return the median clock of each device over some runs."""
    found: dict[str, list[float]] = {}
    for each in (each for telemetry in side if telemetry for each in telemetry.devices):
        if each.clock_mhz:
            found.setdefault(each.device, []).append(each.clock_mhz)
    return {device: statistics.median(clocks) for device, clocks in sorted(found.items())}
