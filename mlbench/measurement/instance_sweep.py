"""Finds the fastest number of instances of an engine by measuring."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.execution.cores import physical_cores
from mlbench.execution.processes.isolation import (
    Channel,
    ChildFunction,
    Failure,
    ProcessEndedError,
    ProcessLimits,
    call_isolated,
)
from mlbench.measurement.job import Job
from mlbench.measurement.running_engine import open_engine, time_longer, warm_up
from mlbench.records.job_spec import JobSpec

logger = logging.getLogger(__name__)

_KEY = "execution.instances"
_STAGE = "sweep over instances"
_DONE_BELOW = 0.85
_AS_GOOD = 0.98
_NEAR = 0.8
"""A number with this part of the highest rate may be better than it looked: other work slowed it for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How fast an engine answers."""

    samples_per_s: float


def choose_instances(job: Job, plugins: Plugins, channel: Channel) -> tuple[Job, Mapping[int, float]]:
    """Return the job with a number of instances, and samples per second by the numbers that were tried.

    Tries 1, 2, 4, ... up to the number of cores, and stops where more are clearly slower or not available; then those
    that are near the best again, of which the higher rate counts. Each is measured as in a run: in a separate process,
    which compiles and warms up, and is timed for about two seconds.

    Raises:
        MlbenchError: the engine cannot be made.
        ProcessEndedError: the first try failed.
    """
    if job.plan.instances != "auto":
        return job, {}
    started_s = time.monotonic()
    rates = try_numbers(
        lambda count: _try_instances(job.spec.with_setting(_KEY, count), job, channel), len(physical_cores())
    )
    chosen = choose_number(rates)
    tried = {number: round(rate, 1) for number, rate in rates.items()}
    logger.info("%d instances, of %s samples/s, in %.0f s", chosen, tried, time.monotonic() - started_s)
    return Job.of_spec(job.spec.with_setting(_KEY, chosen), plugins), tried


def try_numbers(rate_of: Callable[[int], float], most: int) -> Mapping[int, float]:
    """Return the rates of 1, 2, 4, ... instances, the higher one of two tries; raises what the first try raises."""
    rates: dict[int, float] = {}
    count = 1
    while count <= most:
        try:
            rates[count] = rate_of(count)
        except (UsageError, ProcessEndedError) as error:
            if not rates:
                raise
            logger.warning("%d instances are not available: %s", count, error)
            break
        if rates[count] < _DONE_BELOW * max(rates.values()):
            break
        count *= 2
    near = [number for number, found in rates.items() if found >= _NEAR * max(rates.values())]
    for number in near if len(near) > 1 else ():
        try:
            rates[number] = max(rates[number], rate_of(number))
        except (UsageError, ProcessEndedError) as error:
            logger.warning("%d instances were not available again: %s", number, error)
            if len(rates) > 1:
                del rates[number]
    return rates


def choose_number(rates: Mapping[int, float]) -> int:
    """Return the least number of instances that is as good as the best."""
    return min(number for number, rate in rates.items() if rate >= _AS_GOOD * max(rates.values()))


def rate(spec: JobSpec, channel: Channel) -> Rate:
    """Return how fast a job's engine answers many samples; called in a process of its own."""
    channel.progress(_STAGE)
    job = Job.of_spec(spec, Plugins.discover())
    model, dataset = job.model(), job.workload.dataset(job.variant)
    with open_engine(job, model, dataset) as ready:
        pace = time_longer(ready, job, warm_up(ready, job, model))
    return Rate(samples_per_s=pace.rate_per_s)


def _try_instances(spec: JobSpec, job: Job, channel: Channel) -> float:
    """Return samples per second.

    Raises:
        MlbenchError: the engine cannot be made.
        ProcessEndedError: the process failed.
    """
    limits = ProcessLimits.for_helper(job.load.stage_timeout_s / 2)
    log = job.folder / "instance_sweep.txt"
    found = call_isolated(
        ChildFunction(f"{__name__}:{rate.__name__}", Rate), spec, log, limits, lambda progress: channel.progress(_STAGE)
    )
    if isinstance(found, Failure):
        raise ProcessEndedError(found.message, found.kind)
    return found.samples_per_s
