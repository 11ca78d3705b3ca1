"""The power that a submitter's meter read during a performance test: ``spl.txt`` beside LoadGen's log.

Readings strictly between LoadGen's ``power_begin`` and ``power_end`` count, those of 0 W do not. Their mean is the
power of the official result; over the time between the two moments it is the energy, and per query that of the streams.

Source: submission checker v4.1, ``get_power_metric``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from mlbench.contracts.load_pattern import MOMENT
from mlbench.errors import DataError
from mlbench.loadgen.logs import DetailLog
from mlbench.records.run_record import ResultRecord
from mlbench.records.work_record import EnergyRecord
from mlbench.system.documents import read_text, refusal

SPL = "spl.txt"
SOURCE = "SPEC PTDaemon (spl.txt)"

_QUARTERS = range(-14 * 4, 14 * 4 + 1)
"""Quarters of an hour that time zones lie apart."""

_TIME, _WATTS = 1, 3
"""Places in a line, counted from 0."""


def read_power(file: Path, detail: DetailLog, result: ResultRecord, issued: int | None) -> EnergyRecord:
    """Return the energy of a performance test.

    Args:
        file: the ``spl.txt`` of the performance run.
        detail: its detail log.
        result: of the run.
        issued: how many samples it sent.

    Raises:
        DataError: the file is missing or malformed, or has no reading while LoadGen measured.
    """
    readings, seconds = read_watts(file, detail)
    mean_w = sum(readings) / len(readings)
    rate = result.value if result.unit == "tokens/s" else None
    return EnergyRecord(
        joules=mean_w * seconds,
        seconds=seconds,
        source=SOURCE,
        covers="the parts connected to the submitter's meter",
        readings=len(readings),
        joules_per_sample=mean_w * seconds / issued if issued else None,
        joules_per_token=mean_w / rate if rate else None,
    )


def read_watts(file: Path, detail: DetailLog) -> tuple[list[float], float]:
    """Return the readings in W that count, at least one, and over how many seconds LoadGen measured.

    Raises:
        DataError: the file is missing or malformed, or has no reading while LoadGen measured.
    """
    begin, end = _moment(detail.values.get("power_begin")), _moment(detail.values.get("power_end"))
    written = [(moment, watts) for moment, watts in _readings(file) if watts > 0]
    readings = [watts for moment, watts in written if begin < moment < end]
    if not readings:
        message = f"has no reading between {begin:%H:%M:%S} and {end:%H:%M:%S}, when LoadGen measured"
        if hours := _hours_off([moment for moment, _ in written], begin, end):
            raise DataError(
                f"{message}; its readings are {abs(hours):g} h {'later' if hours > 0 else 'earlier'}, as in another "
                "time zone.",
                hint="Let the meter's machine write UTC, as LoadGen does.",
            )
        raise refusal(file, f"{message}.")
    return readings, (end - begin).total_seconds()


def _hours_off(moments: Sequence[datetime], begin: datetime, end: datetime) -> float:
    """Return by how many hours readings are off, as between time zones; 0 where no such shift brings them back."""
    shifts = sorted((each / 4 for each in _QUARTERS), key=lambda hours: (not hours.is_integer(), abs(hours)))
    for hours in shifts:
        shift = timedelta(hours=hours)
        if any(begin + shift < moment < end + shift for moment in moments):
            return hours
    return 0.0


def _readings(file: Path) -> Iterator[tuple[datetime, float]]:
    text = read_text(file, what="power log", replaces_errors=True)
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("Time"):
            fields = line.split(",")
            try:
                watts = float(fields[_WATTS])
                if not math.isfinite(watts):
                    raise ValueError
                yield _moment(fields[_TIME]), watts
            except (DataError, IndexError, ValueError):
                raise DataError(f"line {number} is not a reading: {line[:80]!r}.") from None


def _moment(text: object) -> datetime:
    """Return a moment in UTC, which logs and meters both write."""
    try:
        return datetime.strptime(str(text), MOMENT).replace(tzinfo=UTC)
    except ValueError:
        raise DataError(f"{text!r} is not a moment.") from None
