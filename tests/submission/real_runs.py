"""The stored runs of the official setup, unpacked: real LoadGen's logs, as tests/data/loadgen_logs says."""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

from make_logs import read_archive

ARCHIVES = Path(__file__).parents[1] / "data" / "loadgen_logs"
PLUGIN = ARCHIVES / "plugin"
DETAIL = "mlperf_log_detail.txt"
SUMMARY = "mlperf_log_summary.txt"
REPLIES = "mlperf_log_accuracy.json"
MARK = ":::MLLOG "


@cache
def unpack(name):
    """Return the results folder of an archive; it is to be left as it is."""
    folder = _folder() / name
    read_archive(name, folder)
    return folder


@cache
def _folder():
    folder = Path(tempfile.mkdtemp(prefix="mlbench-real-runs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def run_folder(workload, scenario):
    """Return the run of a workload in a scenario."""
    (folder,) = unpack(workload).glob(f"*-{workload}-null-{scenario}-full-*")
    return folder


def audit_folders(run):
    """Return the run of each compliance test of a run, by the test."""
    runs = sorted((run.parent / ".audits" / run.name).iterdir())
    return {json.loads((each / "record.json").read_text())["audit"]["test"]: each for each in runs}


def logged(detail, key):
    """Return the value of a key in a detail log."""
    (value,) = (each["value"] for each in map(_record, detail.splitlines()) if each["key"] == key)
    return value


def with_values(detail, **changes):
    """Return a detail log with other values of keys that it has; None removes one."""
    lines, left = [], set(changes)
    for line in detail.splitlines():
        record = _record(line)
        left.discard(record["key"])
        value = changes.get(record["key"], ...)
        if value is not None:
            lines.append(line if value is ... else f"{MARK}{json.dumps(record | {'value': value})}")
    assert not left, f"the log has no {left}"
    return "".join(f"{line}\n" for line in lines)


def _record(line):
    return json.loads(line.removeprefix(MARK))
