"""Charts over the time of a test.

They show the load, for backends that note its course (``course`` in the statistics of their engine), and the devices by
the readings of sensors.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import altair

from mlbench.errors import DataError
from mlbench.records.machine.readings import Readings, read_readings
from mlbench.records.machine.telemetry import TELEMETRY_FILE
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_names import short_id
from mlbench.reports.html.drawing import Figure, Mark, Palette, joined, svg_of
from mlbench.reports.summary import Combination
from mlbench.reports.table import table
from mlbench.reports.units import three_digits

logger = logging.getLogger(__name__)

_QUANTITIES = {
    "in_flight": "requests in flight",
    "waiting": "waiting requests",
    "failed": "failed requests",
    "answer_tokens_per_s": "tokens of answers per second",
    "clock_mhz": "clock in MHz",
    "temperature_c": "temperature in °C",
    "busy": "share of the time in use",
    "power_w": "power in watts",
    "strangers": "processes beside the run's",
}
_MOST_STEPS, _MOST = 1000, 1e18


def course_figure(
    combinations: Sequence[Combination], palette: Palette, scenario: str, folders: Mapping[str, Path]
) -> Figure | None:
    """Return the course of the newest run of each series in a scenario; None if nothing was noted.

    Args:
        combinations: of the scenario.
        palette: of the page.
        scenario: its name.
        folders: of runs, by their ids; those of runs without one have no readings.
    """
    runs = {each.series: each.newest for each in combinations}
    found = {series: {**_course_of(run), **_readings_of(run, folders)} for series, run in runs.items()}
    lines = [_Line(series, device, found[series]) for series in found for device in _devices_of(found[series])]
    names = [name for name in _QUANTITIES if any(len(each.points(name)) > 1 for each in lines)]
    if not names:
        return None
    last = max(at for each in lines for name in names for at, _ in each.points(name))
    x = altair.X("x:Q").title("seconds of the test").scale(nice=False, domain=[0, last]).axis(tickCount=5)
    views = {}
    for name in names:
        y = altair.Y("y:Q").title(_QUANTITIES[name]).scale(zero=True).axis(tickCount=5)
        line, _ = joined([mark for each in lines for mark in each.marks(name)], x, y, palette)
        views[_QUANTITIES[name]] = svg_of(line.encode(altair.Detail("line:N")))
    title = f"{scenario}: load and devices over time"
    return Figure(
        title=title,
        note="Means over short steps; the newest run of each series. A device's use and processes are of all work.",
        views=views,
        numbers=table(
            title,
            ["series", "device", *(f"mean {_QUANTITIES[name]}#" for name in names)],
            [[each.series, each.device, *map(each.mean, names)] for each in lines],
        ),
    )


@dataclass(frozen=True, slots=True)
class _Line:
    """All quantities of a series, or of one of its devices."""

    series: str
    device: str
    """Empty for the load."""
    found: Readings

    def points(self, name: str) -> Sequence[tuple[float, float]]:
        return self.found.get(name, {}).get(self.device, ())

    def marks(self, name: str) -> Iterator[Mark]:
        named = f"{self.series}, {self.device}" if self.device else self.series
        for at, value in self.points(name):
            yield Mark(series=self.series, line=self.device, x=at, y=value, text=f"{named}: {three_digits(value)}")

    def mean(self, name: str) -> str:
        values = [value for _, value in self.points(name)]
        return three_digits(math.fsum(values) / len(values)) if values else "-"


def _devices_of(found: Readings) -> Iterable[str]:
    return dict.fromkeys(device for devices in found.values() for device in devices)


def _readings_of(record: RunRecord, folders: Mapping[str, Path]) -> Readings:
    """Return the readings in a run's folder; none with a warning where they are broken, as those of others may be."""
    folder = folders.get(record.run_id)
    if not record.telemetry or not folder or not os.path.lexists(folder / TELEMETRY_FILE):
        return {}
    try:
        return read_readings(folder)
    except DataError as error:
        logger.warning("The devices of run %s are not drawn: %s", short_id(record.run_id), error.message)
        return {}


def _course_of(record: RunRecord) -> Readings:
    """Return the course in a record; nothing if there is none, or it has another form, as in records of others."""
    noted = record.engine.extra.get("course")
    if not isinstance(noted, Mapping) or not (step_s := _number(noted.get("step_ns")) / 1e9) > 0:
        return {}
    return {
        name: {"": [(step_s * (place + 0.5), value) for place, value in enumerate(numbers)]}
        for name in _QUANTITIES
        if (numbers := _numbers(noted.get(name)))
    }


def _numbers(values: object) -> Sequence[float]:
    if not isinstance(values, list | tuple) or len(values) > _MOST_STEPS:
        return ()
    found = [_number(value) for value in values]
    return found if all(map(math.isfinite, found)) else ()


def _number(value: object) -> float:
    """Return a number; of anything else none (NaN)."""
    return float(value) if isinstance(value, int | float) and abs(value) < _MOST else math.nan
