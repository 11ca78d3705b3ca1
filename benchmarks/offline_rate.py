"""What mlbench reaches in Offline: the one side of each comparison in this folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mlbench import BatchProgram, Dataset, Engine, Model
from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import read_detail
from mlbench.loadgen.scenarios import OFFLINE
from mlbench.loadgen.settings import Mode, Seeds, Test
from mlbench.loadgen.watchdog import ProgressCallbacks


def batch_program(model: Model) -> BatchProgram:
    """Return the program of a model whose samples are answered a batch at a time."""
    assert isinstance(model.program, BatchProgram)
    return model.program


def mlbench_rate(model: Model, engine: Engine, dataset: Dataset) -> float:
    """Return samples per second that LoadGen measures, each sample sent once."""
    load = LoadSettings(
        min_duration_ms=1,
        min_query_count=dataset.count,
        performance_sample_count=dataset.count,
        target_qps=1,
        reply_checks=256,
    )
    test = Test(
        scenario=OFFLINE,
        mode=Mode.PERFORMANCE,
        load=load,
        reply=model.program.reply,
        seeds=Seeds(qsl=1, sample_index=2, schedule=3, accuracy_log=4),
    )
    with tempfile.TemporaryDirectory() as folder:
        traffic = drive(test, engine, dataset, Path(folder), ProgressCallbacks())
        assert not traffic.faults, traffic.faults
        rate: float = read_detail(Path(folder) / "mlperf_log_detail.txt").values["result_samples_per_second"]
    return rate
