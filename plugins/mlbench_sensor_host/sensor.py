"""Clock, temperature, throttling and use of the processors, by the files of Linux that psutil reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from mlbench import Sensor, SensorReading

_CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Drivers of the temperature sensors that processors have."""

_SYSTEM = Path("/sys/devices/system/cpu")
_THROTTLED = "cpu[0-9]*/thermal_throttle/package_throttle_count"
_CLOCK = "cpu[0-9]*/cpufreq/scaling_cur_freq"


class Host(Sensor):
    """Shows all processors as one device, at the mean of their clocks."""

    name = "host"
    title = "clock, temperature and use of the processors, memory in use"

    def __init__(self, system: Path = _SYSTEM) -> None:
        """Store where the kernel shows the processors."""
        self._system = system
        self._throttled = 0

    def probe(self) -> str:
        """Return an empty text: every system shows some of it."""
        return ""

    def __enter__(self) -> Self:
        """Begin to count: a share of time is one since the reading before."""
        import psutil

        psutil.cpu_percent()
        self._throttled = self._count_throttled()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: no file stays open."""

    def read(self, own: Collection[int]) -> Sequence[SensorReading]:
        """Return the state of the processors since the last reading."""
        import psutil

        before, self._throttled = self._throttled, self._count_throttled()
        return [
            SensorReading(
                device="host processors",
                clock_mhz=self._clock_mhz(),
                temperature_c=_temperature_c(),
                busy=psutil.cpu_percent() / 100,
                memory_bytes=psutil.virtual_memory().used,
                throttled_by=("heat",) if self._throttled > before else (),
            )
        ]

    def _clock_mhz(self) -> float | None:
        """Return the mean clock; None where the kernel does not show it, as in most virtual machines."""
        clocks = [int(text) / 1e3 for file in self._system.glob(_CLOCK) if (text := _read(file)).isdigit()]
        return sum(clocks) / len(clocks) if clocks else None

    def _count_throttled(self) -> int:
        """Return how often processors were throttled for heat since the machine was started."""
        return sum(int(text) for file in self._system.glob(_THROTTLED) if (text := _read(file)).isdigit())


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _temperature_c() -> float | None:
    """Return the highest temperature of a processor."""
    import psutil

    if not hasattr(psutil, "sensors_temperatures"):
        return None  # psutil has it for Linux alone
    found = psutil.sensors_temperatures()
    return max((each.current for name in _CHIPS for each in found.get(name, ())), default=None)
