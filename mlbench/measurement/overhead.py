"""What the harness itself costs, measured on the same machine in the same scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.model import Model
from mlbench.contracts.scenario import LoadSettings
from mlbench.discovery import Plugins
from mlbench.execution.instances.serving import Part
from mlbench.execution.isolation import Channel
from mlbench.loadgen.drive import drive
from mlbench.loadgen.logs import DETAIL, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job, Signs, test_of
from mlbench.measurement.ready import made_ready
from mlbench.rules.tiers import limits_of

_DURATION_MS = 200
_QUERIES = 1024
_OFFLINE_QPS = 1_000_000.0
_SERVER_QPS = 2000.0
_LATENCY_NS = 2000


def overhead_ns_per_sample(
    job: Job, plugins: Plugins, model: Model, channel: Channel, payload: Mapping[str, Any]
) -> int | None:
    """Return what the harness itself costs per sample here: the same scenario with a backend that answers at once.

    Offline by its rate, the others by their median latency; in as many instances as the run has. None when no null
    backend is installed.
    """
    if "null" not in plugins.backends:
        return None
    load = LoadSettings(
        min_duration_ms=_DURATION_MS,
        min_query_count=_QUERIES,
        performance_sample_count=_QUERIES,
        target_qps=_OFFLINE_QPS if job.scenario.loadgen == "Offline" else _SERVER_QPS,
        expected_latency_ns=_LATENCY_NS,
        reply_checks=0,
    )
    dataset = _NoData()
    limits = limits_of(job.workload, dataset, job.scenario, job.tier, job.variant.profile)
    test = test_of(job, model, limits, load, Mode.PERFORMANCE)
    folder = job.folder / "overhead"
    null = dataclasses.replace(job, backend=plugins.backends["null"])
    with made_ready(null, payload, model, dataset, f"{__name__}:null_part") as ready:
        drive(test, ready.engine, ready.dataset, folder, Signs(channel=channel, stage="overhead"))
    values = read_detail(folder / DETAIL).values
    if job.scenario.loadgen == "Offline":
        rate_per_s: float = values["result_samples_per_second"]
        return round(1e9 / rate_per_s)
    median_ns: int = values["result_50.00_percentile_latency_ns"]
    return median_ns


def null_part(payload: Mapping[str, Any]) -> Part:
    """Return what an instance of the null backend is made of, whatever the run's is; called in its process."""
    plugins = Plugins.discover()
    job = Job.from_payload(payload, plugins)
    model = job.workload.model(job.variant)
    return Part(backend=plugins.backends["null"], model=model, plan=job.plan, dataset=_NoData())


class _NoData(Dataset):
    """Indices with nothing behind them: the null backend never looks."""

    count = performance_count = 1024
    fingerprint = "none"

    def load(self, indices: Sequence[int]) -> None:
        """Load nothing."""

    def unload(self, indices: Sequence[int]) -> None:
        """Unload nothing."""

    def sample(self, index: int) -> None:
        """Return nothing."""
