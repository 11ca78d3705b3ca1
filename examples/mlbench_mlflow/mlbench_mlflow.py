"""Runs in MLflow: whenever mlbench stores a run, it is posted to the store that ``MLFLOW_TRACKING_URI`` names."""

import json
import os
from datetime import datetime
from pathlib import Path

from mlbench import hookimpl

PARAMETERS = ("workload", "backend", "scenario", "precision", "profile", "tier", "weights", "mlbench_version")


@hookimpl
def mlbench_run_stored(folder: Path) -> None:
    """Post the run; nothing without a store, since nothing is to leave the machine unless its user says where to."""
    if not (uri := os.environ.get("MLFLOW_TRACKING_URI")):
        return
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would report to its makers
    from mlflow import MlflowClient  # heavy, so only commands that store a run pay for it
    from mlflow.entities import Metric, Param

    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    client, name = MlflowClient(uri), os.environ.get("MLFLOW_EXPERIMENT_NAME", "mlbench")
    experiment = client.get_experiment_by_name(name)
    begin_ms = int(datetime.fromisoformat(record["created"]).timestamp() * 1000)
    run = client.create_run(
        experiment.experiment_id if experiment else client.create_experiment(name),
        begin_ms,
        {"mlbench.tag": record["tag"], "mlbench.is_valid": str((record["verdict"] or {}).get("is_valid", False))},
        folder.name,
    ).info.run_id
    end_ms = begin_ms + (record["duration_ns"] or 0) // 1_000_000
    values = {key: record[key] for key in PARAMETERS} | {key: each["value"] for key, each in record["settings"].items()}
    result, accuracy = record["result"] or {}, record["accuracy"] or {}  # a failed run has neither
    numbers = {"result": result.get("value"), **accuracy.get("scores", {})}
    metrics = [Metric(key, number, end_ms, 0) for key, number in numbers.items() if number is not None]
    client.log_batch(run, metrics, [Param(key, str(value)) for key, value in values.items()])
    client.set_terminated(run, "FINISHED" if record["status"] == "completed" else "FAILED", end_ms)
