"""A ledger of runs: whenever mlbench stores a run, a line is added to ``ledger.csv`` beside the run folders."""

import csv
import fcntl
import json
import os
from pathlib import Path

from mlbench import hookimpl

COLUMNS = ("created", "run_id", "workload", "backend", "scenario", "status", "is_valid", "value", "unit")


@hookimpl
def mlbench_run_stored(folder: Path) -> None:
    """Add the run to the ledger, with the names of the columns before the first."""
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    row = {**record, **(record["verdict"] or {}), **(record["result"] or {})}  # a failed run has neither
    with (folder.parent / "ledger.csv").open("a", encoding="utf-8", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two runs may end at once
        ledger = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        if not file.seek(0, os.SEEK_END):
            ledger.writeheader()
        ledger.writerow(row)
