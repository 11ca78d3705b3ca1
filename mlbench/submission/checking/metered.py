"""Demands on the files of a result whose power was metered. What the power working group's script checks is not here.

Source: submission checker v4.1, ``check_power_dir`` and ``check_measurement_dir``.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlbench.errors import DataError
from mlbench.loadgen.logs import DETAIL, read_damaged_detail
from mlbench.submission.checking.findings import CheckedFolder, TreeFinding
from mlbench.submission.checking.folder_files import describe_difference, list_files
from mlbench.submission.power import SPL, read_watts
from mlbench.submission.tree import ACCURACY_LOG, SUMMARY

_POWER_FILES = ("client.json", "client.log", "ptd_logs.txt", "server.json", "server.log")
_METER_FILES = ("analyzer_table", "power_settings")
"""Each with any ending, in the scenario's measurements folder or up to three levels above it."""


def check_power(place: CheckedFolder) -> Iterator[TreeFinding]:
    """Yield what is wrong with the files about power of a result that has any."""
    entry = place.entry
    if not entry.has_power:
        return
    performance = entry.performance.parent
    if difference := describe_difference(performance / "power", _POWER_FILES):
        yield place.finding("power_files", "performance/power", f"{difference}.")
    if difference := describe_difference(performance / "ranging", (SUMMARY, DETAIL, SPL), (ACCURACY_LOG,)):
        yield place.finding("ranging_files", "performance/ranging", f"{difference}.")
    above = [entry.measurements, *entry.measurements.parents[:3]]
    for wanted in _METER_FILES:
        if not any(name.startswith(f"{wanted}.") for folder in above for name in list_files(folder)):
            message = f"there is no {wanted}.* in the measurements folder, or up to three levels above it."
            yield place.finding("meter_files", "", message)
    try:
        read_watts(entry.performance / SPL, read_damaged_detail(entry.performance / DETAIL))
    except DataError as error:
        message = error.message.replace(f"{entry.performance}/", "")
        yield place.finding("power_readings", f"performance/run_1/{SPL}", message)
