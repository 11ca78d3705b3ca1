"""Reads sensors once a second while a run is measured, in the process that waits for the run's own."""

from __future__ import annotations

import csv
import dataclasses
import logging
import math
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from mlbench.contracts.sensor import Sensor, SensorReading
from mlbench.execution.processes.usage import process_tree
from mlbench.records.machine.telemetry import TELEMETRY_FILE, DeviceTelemetryRecord, TelemetryRecord
from mlbench.system.guards import log_errors
from mlbench.wire.progress import ProgressMessage

logger = logging.getLogger(__name__)

_MEASURED = "performance"
"""The stage of a run in which sensors are read."""

_PERIOD_S = 1.0

PATIENCE_S = 5.0
"""How long a sensor may take for a reading."""

_COUNTS = ("memory_bytes", "strangers")
_SHOWN = 80

_FIELDS = [field.name for field in dataclasses.fields(SensorReading)]


@dataclass(frozen=True, slots=True)
class Moment:
    """A reading, its sensor and its time."""

    seconds: float
    """Since the begin of the stage."""
    sensor: str
    reading: SensorReading


class Telemetry:
    """A context manager around a run's process: reads sensors in its performance test, by the progress it follows.

    Nothing that a sensor raises fails the run, and none that hangs holds it up for longer than `PATIENCE_S`.
    """

    def __init__(self, sensors: Iterable[Sensor], folder: Path, *, period_s: float = _PERIOD_S) -> None:
        """Store the sensors to read, and the run folder."""
        self._sensors, self._file, self._period_s = tuple(sensors), folder / TELEMETRY_FILE, period_s
        self._reader: _Reader | None = None

    def note(self, progress: ProgressMessage) -> None:
        """Take a message of the run: with the stage it begins or ends to read. It waits for no sensor."""
        is_measured = progress.stage == _MEASURED
        if is_measured and self._sensors and self._reader is None:
            self._reader = _Reader(self._sensors, self._period_s)
        elif not is_measured and self._reader:
            self._reader.is_over.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._reader:
            self._reader.is_over.set()
            self._reader.thread.join(PATIENCE_S)

    def record(self) -> TelemetryRecord | None:
        """Write the readings to the run folder and return their summary; None without any."""
        moments = list(self._reader.moments) if self._reader else []
        if not self._reader or not moments:
            return None
        try:
            with self._file.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["seconds", "sensor", *_FIELDS])
                writer.writerows(_cells(moment) for moment in moments)
        except OSError as error:  # a full disk; the record has the summary
            logger.warning("%s cannot be written: %s", self._file, error.strerror)
        return summarise(moments, processor_s=self._reader.processor_s)


class _Reader:
    """A thread that reads sensors, until it is over."""

    def __init__(self, sensors: Sequence[Sensor], period_s: float) -> None:
        self._sensors, self._period_s = sensors, period_s
        self.moments: list[Moment] = []
        self.processor_s = 0.0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._run, name="mlbench-telemetry", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        began_s = time.monotonic()
        with ExitStack() as opened:
            sensors = [each for each in self._sensors if _succeeds(opened.enter_context, each)]
            while not self.is_over.wait(self._period_s) and sensors:
                own = [process.pid for process in process_tree(os.getpid())]
                sensors = [each for each in sensors if _succeeds(self._read, each, own, began_s)]
        self.processor_s = time.thread_time()

    def _read(self, sensor: Sensor, own: Collection[int], began_s: float) -> None:
        seconds = round(time.monotonic() - began_s, 3)
        self.moments += [Moment(seconds, sensor.name, _check(reading)) for reading in sensor.read(own)]


def _check(reading: object) -> SensorReading:
    """Return a reading; raises `TypeError` for anything that could not be summarised and stored."""
    if not isinstance(reading, SensorReading):
        raise TypeError(f"read() gave a {type(reading).__name__}, not a SensorReading")
    for name in _FIELDS:
        value = getattr(reading, name)
        if name == "device":
            is_sound = isinstance(value, str)
        elif name == "throttled_by":
            is_sound = isinstance(value, tuple | list) and all(isinstance(each, str) for each in value)
        elif name in _COUNTS:
            is_sound = value is None or (isinstance(value, int) and value >= 0)
        else:
            is_sound = value is None or (isinstance(value, int | float) and math.isfinite(value))
        if not is_sound:
            raise TypeError(f"{name} is {str(value)[:_SHOWN]!r} in a reading")
    return reading


def _succeeds(call: Callable[..., object], sensor: Sensor, *arguments: object) -> bool:
    """Return whether a call of a plugin's code succeeds."""
    with log_errors(logger, "the sensor %s failed", sensor.name):
        call(sensor, *arguments)
        return True
    return False


def _cells(moment: Moment) -> list[object]:
    values = [getattr(moment.reading, name) for name in _FIELDS]
    shown = ["; ".join(each) if isinstance(each, tuple | list) else each for each in values]
    return [moment.seconds, moment.sensor, *shown]


def summarise(moments: Sequence[Moment], *, processor_s: float) -> TelemetryRecord:
    """Return the record of some readings, of which there is one at least."""
    devices: dict[tuple[str, str], list[SensorReading]] = {}
    for each in moments:
        devices.setdefault((each.sensor, each.reading.device), []).append(each.reading)
    seconds = moments[-1].seconds - moments[0].seconds
    return TelemetryRecord(
        seconds=round(seconds, 3),
        processor_share=round(min(1.0, processor_s / moments[-1].seconds), 4) if moments[-1].seconds else 0.0,
        devices=[_summarise_device(device, sensor, readings) for (sensor, device), readings in devices.items()],
    )


def _summarise_device(device: str, sensor: str, readings: Sequence[SensorReading]) -> DeviceTelemetryRecord:
    def summary(name: str, of: Callable[[list[Any]], Any]) -> Any:
        shown = [value for each in readings if (value := getattr(each, name)) is not None]
        return of(shown) if shown else None

    throttled = Counter(reason for each in readings for reason in set(each.throttled_by))
    return DeviceTelemetryRecord(
        device=device,
        sensor=sensor,
        readings=len(readings),
        clock_mhz=summary("clock_mhz", statistics.median),
        lowest_clock_mhz=summary("clock_mhz", min),
        highest_temperature_c=summary("temperature_c", max),
        mean_power_w=summary("power_w", statistics.fmean),
        mean_busy=summary("busy", statistics.fmean),
        most_memory_bytes=summary("memory_bytes", max),
        throttled={reason: round(count / len(readings), 4) for reason, count in throttled.most_common()},
        strangers=summary("strangers", max),
    )
