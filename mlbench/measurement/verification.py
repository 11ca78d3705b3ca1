"""A stored record, held against the logs that LoadGen left beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlbench.discovery import Plugins
from mlbench.loadgen.logs import DETAIL, AccuracyLog, read_detail, result_of
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job
from mlbench.rules.official import official_rules
from mlbench.scoring import score


def differences(record: Mapping[str, Any], folder: Path, plugins: Plugins) -> Iterator[str]:
    """Yield a line for each number of a completed run's record that its logs do not give again.

    Args:
        record: as stored, JSON values.
        folder: the run folder.
        plugins: must hold the workload, whose metric scores the accuracy log once more.

    Raises:
        DataError: a log is missing, cut short or corrupt, or the workload's data is.
    """
    job = Job.from_payload(
        {
            **record,
            "wants_accuracy": record["accuracy"] is not None,
            "uncounted": "no run is made",
            "settings": {key: setting["value"] for key, setting in record["settings"].items()},
            "folder": str(folder),
        },
        plugins,
    )
    detail = read_detail(folder / Mode.PERFORMANCE / DETAIL)
    token_key = official_rules(job.workload.rules).reported_key(job.scenario.loadgen)
    measured = result_of(detail, job.scenario, token_key=token_key).value
    if measured != record["result"]["value"]:
        yield f"result: the record says {record['result']['value']}, the log {measured}"
    if record["accuracy"]:
        metric = job.workload.metric(job.variant, job.workload.dataset(job.variant))
        assert metric
        line = score(metric, AccuracyLog(folder / Mode.ACCURACY / "mlperf_log_accuracy.json")).line
        if line != record["accuracy"]["line"]:
            yield f"accuracy: the record says {record['accuracy']['line']}, the log {line}"
