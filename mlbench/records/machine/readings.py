"""The readings of sensors in a run's folder: a file that may be a stranger's."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from mlbench.records.machine.telemetry import TELEMETRY_FILE
from mlbench.system.documents import foreign, inside, read_text

QUANTITIES = ("clock_mhz", "temperature_c", "busy", "power_w", "strangers")
"""Columns that are read; see `SensorReading`."""

Readings = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
"""By quantity and device: seconds since the begin of the test, and the value."""

_MOST_BYTES, _MOST_DEVICES, _MOST, _NAMED = 1 << 24, 32, 1e12, 80
_STEPS = 200


def read_readings(folder: Path) -> Readings:
    """Return the readings in a run folder, as means over a two-hundredth of the test; only quantities with values.

    Raises:
        DataError: the file is missing, cannot be read, is too large, leads out of the folder, or holds something else.
    """
    file = folder / TELEMETRY_FILE
    with inside(folder):
        lines = read_text(file, what="telemetry", limit_bytes=_MOST_BYTES).splitlines()
    sums: dict[str, dict[str, dict[int, list[float]]]] = {}
    with foreign(file, "holds no readings"):
        step_s = max((seconds for seconds, *_ in _rows(lines)), default=0.0) / _STEPS or 1.0
        for seconds, device, cells in _rows(lines):
            for name, cell in zip(QUANTITIES, cells, strict=True):
                if cell:
                    devices = sums.setdefault(name, {})
                    step = devices.setdefault(device, {}).setdefault(int(seconds / step_s), [0.0, 0.0, 0.0])
                    for place, added in enumerate((1.0, seconds, _number(cell))):
                        step[place] += added
                    if len(devices) > _MOST_DEVICES:
                        raise ValueError(f"it has more than {_MOST_DEVICES} devices")
    return {
        name: {
            device: [(seconds / count, value / count) for _, (count, seconds, value) in sorted(steps.items())]
            for device, steps in devices.items()
        }
        for name, devices in sums.items()
    }


def _rows(lines: Sequence[str]) -> Iterator[tuple[float, str, Sequence[str]]]:
    """Yield the seconds, the device and the cells of `QUANTITIES` of each row."""
    reader = csv.reader(lines)
    names = next(reader, [])
    places = [names.index(name) for name in ("seconds", "device", *QUANTITIES)]
    for row in reader:
        seconds, device, *cells = (row[place] for place in places)
        yield _number(seconds, least=0), device[:_NAMED], cells


def _number(cell: str, *, least: float = -_MOST) -> float:
    if not least <= (value := float(cell)) < _MOST:  # NaN is not either
        raise ValueError(f"{cell[:_NAMED]!r} is not a reading")
    return value
