"""What else a result must have beside its runs: compliance tests and, if power was metered, the meter's files.

A part of the independent checker of submission trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import checker_tables as tables
from checker_runs import (
    DetailLog,
    Entry,
    Finding,
    Weight,
    check_files,
    check_hash_value,
    check_log_size,
    check_performance_folder,
    files_of,
    metric_on,
    read_text,
)
from checker_tables import ACCURACY_LOG, DETAIL, MULTI, SINGLE

# --- Compliance tests -------------------------------------------------------------------------------------------------


def check_compliance_folder(entry: Entry) -> Iterator[Finding]:
    """Check the compliance tests that the model must have passed."""
    for test in entry.model.workload.tests:
        folder = entry.folder("compliance") / test
        if not folder.is_dir():
            yield entry.refuses("no-test", folder, f"{test} must have been run.")
        elif test == "TEST06":
            yield from check_token_test(entry, folder / "verify_accuracy.txt")
        else:
            if "TEST PASS" not in read_text(folder / "verify_performance.txt"):
                yield entry.refuses("test-failed", folder / "verify_performance.txt", 'No "TEST PASS".')
            yield from check_performance_folder(entry, folder / "performance" / "run_1")
            yield from check_audit(entry, folder, test)
            if test == "TEST01":
                yield from check_test01(entry, folder)


def check_token_test(entry: Entry, path: Path) -> Iterator[Finding]:
    """Check TEST06: its three lines."""
    lines = [line.strip() for line in read_text(path).splitlines()]
    for wanted in tables.TEST06_LINES:
        if not any(text in lines for text in wanted):
            yield entry.refuses("test-failed", path, f'No line "{wanted[0]}".')


def check_test01(entry: Entry, folder: Path) -> Iterator[Finding]:
    """Check TEST01's accuracy: the same outputs bit by bit, or scores of the same samples that differ little."""
    accuracy = folder / "accuracy"
    is_exact = "TEST PASS" in read_text(folder / "verify_accuracy.txt")
    if not (folder / "verify_accuracy.txt").is_file():
        yield entry.refuses("file-missing", folder / "verify_accuracy.txt", "This file must be there.")
    yield from check_files(entry, accuracy, tables.TEST01_FILES | (set() if is_exact else tables.TEST01_SCORES))
    yield from check_log_size(entry, accuracy / ACCURACY_LOG, Weight.STRICTER)
    yield from check_hash_value(entry, accuracy)
    if is_exact or not files_of(accuracy) >= tables.TEST01_SCORES:
        return
    for metric in entry.model.targets:
        baseline, compliance = (score_of(accuracy / name, metric) for name in sorted(tables.TEST01_SCORES))
        tolerance = {"FID_SCORE": 2.0}.get(metric, 0.1 if entry.checker_name.endswith("-99.9") else 1.0)
        if not baseline or not compliance:
            yield entry.refuses("no-accuracy", accuracy, f"{metric} is missing in one of the two scores.")
        elif abs(1 - baseline / compliance) * 100 > tolerance:
            yield entry.refuses("test-failed", accuracy, f"{metric} differs by more than {tolerance} %.")


def score_of(path: Path, metric: str) -> float | None:
    """Return the last value of a metric in a file."""
    values = [value for line in read_text(path).splitlines() if (value := metric_on(line, metric)) is not None]
    return values[-1] if values else None


def check_audit(entry: Entry, folder: Path, test: str) -> Iterator[Finding]:
    """Hold a test's log against what the test sets, and against "TEST PASS"; the official checker does neither."""
    detail = Path("performance", "run_1", DETAIL)
    plain, tested = DetailLog.read(entry.folder("results") / detail), DetailLog.read(folder / detail)
    for key, value in tables.AUDIT_SETTINGS[test].items():
        if tested.values.get(key, value) != value:
            yield entry.stricter("test-settings", folder / detail, f"{key} is {tested.values[key]}, not {value}.")
    key = tables.RESULT_KEYS.get(plain.scenario, "")
    before, after = plain.number(key), tested.number(key)
    if plain.scenario != tested.scenario or not before or not after:
        return
    is_stream = plain.scenario in (SINGLE, MULTI)
    is_relaxed = before <= {SINGLE: 200_000, MULTI: 1_600_000}.get(plain.scenario, 0)
    if is_stream and test == "TEST04":  # compares rates; its script even with the threshold, which is of latencies
        before, after = 1e9 / before, 1e9 / after
    if not is_within(test, after / before, is_stream, is_relaxed):
        sentence = f"The run with the test gave {after / before:.3f} of the result."
        yield entry.stricter("test-claim", folder / "verify_performance.txt", sentence)


def is_within(test: str, ratio: float, is_stream: bool, is_relaxed: bool) -> bool:
    """Return whether a test's result is near enough to the plain one, by each test's own rule."""
    if test == "TEST01":  # equal within 10 % on both sides
        return abs(ratio - 1) < (0.2 if is_relaxed else 0.1)
    if test == "TEST04":  # repeating one sample must not make it faster
        return ratio < (1.2 if is_relaxed else 1.1)
    margin = 0.2 if is_relaxed else 0.05  # TEST05: other seeds must not make it slower
    return ratio < 1 + margin if is_stream else ratio > 1 - margin


# --- Power ------------------------------------------------------------------------------------------------------------


def has_power(entry: Entry) -> bool:
    """Return whether the result comes with power."""
    return (entry.folder("results") / "performance" / "power").is_dir()


def check_power(entry: Entry) -> Iterator[Finding]:
    """Check the files of a measurement of power; what MLCommons' own power script finds in them is not repeated."""
    performance, measurements = entry.folder("results") / "performance", entry.folder("measurements")
    yield from check_files(entry, performance / "power", tables.POWER_FILES)
    yield from check_files(entry, performance / "ranging", tables.LOGS | {tables.POWER_LOG}, tables.PERFORMANCE_EXTRAS)
    for name in tables.POWER_SETTINGS:
        folders = [measurements, *measurements.parents[:3]]
        if not any(file.startswith(f"{name}.") for folder in folders for file in files_of(folder)):
            yield entry.refuses("file-missing", measurements / name, "No such file here or up to three levels above.")
    if not any(power_samples(performance / "run_1")):
        path = performance / "run_1" / tables.POWER_LOG
        yield entry.refuses("no-power", path, "No positive sample between power_begin and power_end.")


def power_samples(run: Path) -> Iterator[float]:
    """Give the watts that count: positive, and read strictly between the beginning and the end of the run."""
    log = DetailLog.read(run / DETAIL)
    try:
        begin, end = (datetime.strptime(log.values[key], tables.POWER_TIME) for key in ("power_begin", "power_end"))
        for fields in (line.split(",") for line in read_text(run / tables.POWER_LOG).splitlines()):
            is_sample = fields[0].startswith("Time")
            if is_sample and begin < datetime.strptime(fields[1], tables.POWER_TIME) < end and float(fields[3]) > 0:
                yield float(fields[3])
    except (KeyError, TypeError, ValueError, IndexError):
        return
