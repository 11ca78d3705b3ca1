"""How many instances of an engine are fastest, by trying."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import psutil

from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.execution.cores import physical_cores
from mlbench.execution.isolation import Channel, Failure, ProcessEndedError, ProcessLimits, call_isolated
from mlbench.measurement.job import Job
from mlbench.measurement.running_engine import open_engine, warm_up

logger = logging.getLogger(__name__)

_KEY = "execution.instances"
_STAGE = "sweep over instances"
_DONE_BELOW = 0.85
_AS_GOOD = 0.98
_MEMORY_SHARE = 0.8


def choose_instances(
    payload: Mapping[str, Any], plugins: Plugins, channel: Channel
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the payload with a number of instances, and what was tried for it, for the record.

    Tries 1, 2, 4, ... up to the number of cores, and stops where more are clearly slower or not available. Each is
    tried as a run would have it: in a process of its own, which compiles and warms up, and is timed for about a second.

    Raises:
        MlbenchError: the engine cannot be made.
        ProcessEndedError: the first try failed.
    """
    job = Job.from_payload(payload, plugins)
    if job.plan.instances != "auto":
        return payload, {}
    rates: dict[int, float] = {}
    started_s, count = time.monotonic(), 1
    while count <= len(physical_cores()):
        try:
            rates[count] = _try_instances(_with(payload, count), job, channel)
        except (UsageError, ProcessEndedError) as error:
            if not rates:
                raise
            logger.warning("%d instances are not available: %s", count, error)
            break
        if rates[count] < _DONE_BELOW * max(rates.values()):
            break
        count *= 2
    chosen = min(number for number, rate in rates.items() if rate >= _AS_GOOD * max(rates.values()))
    tried = {number: round(rate, 1) for number, rate in rates.items()}
    logger.info("%d instances, of %s samples/s, in %.0f s", chosen, tried, time.monotonic() - started_s)
    return _with(payload, chosen), {"instances": chosen, "instance_sweep_samples_per_s": tried}


def rate(payload: Mapping[str, Any], channel: Channel) -> Mapping[str, Any]:
    """Return how fast a job's engine answers many samples; called in a process of its own."""
    channel.progress(_STAGE)
    job = Job.from_payload(payload, Plugins.discover())
    model, dataset = job.workload.model(job.variant), job.workload.dataset(job.variant)
    with open_engine(job, payload, model, dataset) as ready:
        return {"samples_per_s": warm_up(ready, job, model).rate_per_s}


def _try_instances(payload: Mapping[str, Any], job: Job, channel: Channel) -> float:
    """Return samples per second.

    Raises:
        MlbenchError: the engine cannot be made.
        ProcessEndedError: the process failed.
    """
    limits = ProcessLimits(
        stage_timeout_s=job.load.stage_timeout_s / 2,
        memory_bytes=int(_MEMORY_SHARE * psutil.virtual_memory().available),
    )
    log = job.folder / "instance_sweep.txt"
    found = call_isolated(f"{__name__}:rate", payload, log, limits, lambda progress: channel.progress(_STAGE))
    if isinstance(found, Failure):
        raise ProcessEndedError(found.message, found.kind)
    per_s: float = found["samples_per_s"]
    return per_s


def _with(payload: Mapping[str, Any], instances: int) -> Mapping[str, Any]:
    return {**payload, "settings": {**payload["settings"], _KEY: instances}}
