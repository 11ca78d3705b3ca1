"""A run's engine, in this process or in several instances, ready for LoadGen."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from mlbench.cluster.cluster_engine import ClusterEngine
from mlbench.cluster.network_engine import NetworkEngine
from mlbench.cluster.placed_nodes import Placement
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.discovery import Plugins
from mlbench.errors import InvalidRunError
from mlbench.execution.engine_choice import contain_refusals, engine_of
from mlbench.execution.instances.engine import Building, ReplicatedEngine
from mlbench.execution.instances.serving import Part
from mlbench.execution.instances.workers_engine import WorkersEngine
from mlbench.execution.preload import modules_to_preload, preload
from mlbench.execution.processes.usage import peak_bytes
from mlbench.execution.speed_estimate import (
    BUDGET_S,
    SpeedEstimate,
    measure_longer,
    measure_saturated_speed,
    measure_single_queries,
    measure_speed,
)
from mlbench.execution.variations import Variation, VariedDataset
from mlbench.loadgen.network import Network
from mlbench.measurement.job import Job
from mlbench.records.job_spec import JobSpec
from mlbench.records.node_record import ClusterRecord, NetworkRecord

logger = logging.getLogger(__name__)

PART_OF_RUN = f"{__name__}:part_of_run"
"""Makes an engine's parts in another process."""
DESCRIBE_NODE = "mlbench.measurement.node_facts:describe_node"
"""Describes a node of a cluster."""
_TYPICAL_SAMPLES = 64

_BEFORE_TEST_S = 0.2
"""Seconds that each part of a trial takes where a test follows that sends all samples at once."""
_ENOUGH_S = 0.3
"""How long many samples at once are timed at least where a rate need only be about right."""
_LONGER_S = 2.0  # fractions of a second can show a third of an engine's speed
_SLOW_TRIAL = 2.0
"""The trial is repeated if a test was faster by this factor. An engine that batches may be that much faster with many
samples anyway: then a second or two are lost, and the rate is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEngine:
    """An engine, and operations in its process."""

    engine: Engine
    dataset: Dataset
    """Loads samples in the engine's process."""
    vary: Callable[[Mapping[int, Variation]], Dataset]
    """Makes variations of loaded samples in the engine's process; valid until the next call."""
    runtime: Callable[[], RuntimeFacts]
    """Observes the runtime that the engine uses."""
    peak_memory_bytes: Callable[[], int]
    """Peak memory of all its processes, including this one; of nodes only this one."""
    network: Network | None = None
    """The network of its nodes; None: it has none."""
    reached: Callable[[], Mapping[str, NetworkRecord | ClusterRecord]] = dict
    """What went to the nodes before the last look at the engine's statistics, by the name of its part of the record."""


@contextmanager
def open_engine(job: Job, model: Model, dataset: Dataset) -> Iterator[RunningEngine]:
    """Give a job's engine.

    Raises:
        MlbenchError: as `Backend.engine` does.
        ProcessEndedError: an engine of the backend's own refuses to start, or an instance ended.
    """
    instances = job.plan.instances
    if job.spec.network:
        with NetworkEngine(job.spec, model, dataset) as remote:
            network = Network(names=remote.names, watch=remote.watch, threads=remote.threads)
            yield replace(_over_workers(remote), network=network, reached=lambda: {"network": remote.record()})
        return
    if job.plan.nodes:
        with ClusterEngine(job.spec, model, dataset, _placement_of(job)) as placed:
            network = Network(watch=placed.watch, threads=placed.threads)
            yield replace(_over_workers(placed), network=network, reached=lambda: {"cluster": placed.record()})
        return
    if instances == 1 and not job.plan.devices:
        made = engine_of(job.backend, model, job.plan)
        with ExitStack() as stack:
            with contain_refusals(made):
                engine = stack.enter_context(made)
            yield RunningEngine(
                engine=engine,
                dataset=dataset,
                vary=lambda variations: VariedDataset(dataset, variations),
                runtime=job.backend.observe,
                peak_memory_bytes=peak_bytes,
            )
        return
    assert instances != "auto"
    building = Building(builder=PART_OF_RUN, payload=asdict(job.spec))
    with ReplicatedEngine(building, instances, model, job.plan, dataset) as replicated:
        whole = _over_workers(replicated)
        yield replace(whole, peak_memory_bytes=lambda: peak_bytes() + replicated.peak_memory_bytes())


def _over_workers(engine: WorkersEngine[Any]) -> RunningEngine:
    return RunningEngine(
        engine=engine,
        dataset=engine.library,
        vary=engine.vary,
        runtime=engine.runtime,
        peak_memory_bytes=peak_bytes,
    )


def _placement_of(job: Job) -> Placement:
    return Placement(
        count=job.plan.nodes,
        cluster=job.plan.cluster,
        job=asdict(job.spec),
        builder=PART_OF_RUN,
        describer=DESCRIBE_NODE,
    )


def part_of_run(payload: Mapping[str, Any]) -> Part:
    """Return the parts of an instance; called in its process."""
    job = Job.of_spec(JobSpec(**payload), Plugins.discover())
    preload(modules_to_preload(job.workload, job.backend))
    return Part(
        backend=job.backend,
        model=job.model(),
        plan=job.plan,
        dataset=job.workload.dataset(job.variant),
    )


def warm_up(
    ready: RunningEngine, job: Job, model: Model, *, known_per_s: float | None = None, is_tested_next: bool = False
) -> SpeedEstimate:
    """Warm the engine up on samples spread over the dataset, and estimate its speed at several loads.

    Args:
        ready: the engine.
        job: what is run.
        model: the same.
        known_per_s: samples per second that such an engine reached in an earlier run, with all samples at once.
        is_tested_next: whether a test follows whose speed counts, too. In both cases the speed of a language model
            with many samples at once need not be looked for, which takes seconds; in the second case, where a rate is
            sent, nor any model's. Nor need single queries be timed for long where that test sends all samples at once:
            its speed is the one that counts, and it sees more of them; likewise for a language model, whose speed with
            many is looked for.
    """
    is_known = is_tested_next or known_per_s is not None
    is_language = isinstance(model.program, GenerationProgram)
    is_rough = job.scenario.sends_all_at_once and (is_tested_next or is_language)
    budget_s = _BEFORE_TEST_S if is_rough else BUDGET_S
    with _typical_samples(ready.dataset) as samples, contain_refusals(ready.engine):
        ready.engine.warm_up(samples)
        known = {"is_saturation_known": is_known, "is_rate_known": known_per_s is not None}
        pace = _trial(ready.engine, samples, job, model, budget_s=budget_s, **known)
    return pace.with_seen(known_per_s, is_saturated=is_language)


def time_longer(ready: RunningEngine, job: Job, pace: SpeedEstimate) -> SpeedEstimate:
    """Return the speed with that of many samples at once, timed for two seconds where the trial was far shorter."""
    with _typical_samples(ready.dataset) as samples, contain_refusals(ready.engine):
        return measure_longer(pace, ready.engine, samples, job.load.stall_timeout_s, seconds=_LONGER_S)


def repeat_slow_trial(
    ready: RunningEngine, job: Job, model: Model, pace: SpeedEstimate, *, seen_per_s: float
) -> SpeedEstimate:
    """Return the speed, measured again if a test was far faster than the trial from which a rate would be chosen.

    A trial lasts a second or two, and the machine may be busy just then. The better of the two trials counts: the
    engine did reach that speed. A rate that the user gave needs neither, and one that `server_rate` finds looks at the
    test's speed itself. ``seen_per_s`` is the test's.
    """
    is_chosen = job.scenario.sends_rate and not job.load.target_qps and job.load.server_load != "auto"
    if not is_chosen or seen_per_s <= _SLOW_TRIAL * pace.sustained_per_s:
        return pace
    logger.info("a test reached %.3g samples/s, after %s", seen_per_s, pace)
    return repeat_trial(ready, job, model, pace)


def repeat_trial(ready: RunningEngine, job: Job, model: Model, pace: SpeedEstimate) -> SpeedEstimate:
    """Return the better of an earlier trial and another one; the earlier one where a sample fails now."""
    try:
        with _typical_samples(ready.dataset) as samples:
            again = _trial(ready.engine, samples, job, model)
    except InvalidRunError as error:  # the test that follows says so too, and then there is a result to store
        logger.warning("the trial could not be repeated: %s", error)
        return pace
    logger.info("timed again: %s after %s", again, pace)
    return max(pace, again, key=lambda each: each.sustained_per_s)


def _trial(  # noqa: PLR0913 - whom, with what, and for how long
    engine: Engine,
    samples: Samples,
    job: Job,
    model: Model,
    *,
    is_saturation_known: bool = False,
    is_rate_known: bool = False,
    budget_s: float = BUDGET_S,
) -> SpeedEstimate:
    is_rate_given = job.scenario.sends_rate and job.load.target_qps
    is_rate_share = job.scenario.sends_rate and job.load.server_load != "auto"  # of what this trial measures
    # no crowd comes to a stream, and its batch would take memory that the run does not need; nor need it be timed where
    # an earlier run's whole test was
    is_alone = job.scenario.waits_for_answers or (job.scenario.sends_rate and is_rate_known and not is_rate_share)
    measure = measure_single_queries if is_alone else measure_speed
    query_size = job.scenario.query_size(job.load)
    pace = measure(engine, samples, query_size, job.load.stall_timeout_s, budget_s=budget_s)
    is_needed = not (job.scenario.waits_for_answers or is_rate_given) and (is_rate_share or not is_saturation_known)
    if isinstance(model.program, GenerationProgram) and is_needed:
        enough_s = _ENOUGH_S if job.scenario.sends_all_at_once else math.inf
        pace = measure_saturated_speed(pace, engine, samples, job.load.stall_timeout_s, enough_s=enough_s)
    return pace


@contextmanager
def _typical_samples(dataset: Dataset) -> Iterator[Samples]:
    """Load samples spread over the dataset."""
    indices = typical_indices(dataset, _TYPICAL_SAMPLES)
    dataset.load(indices)
    try:
        yield Samples(list(range(len(indices))), indices, dataset)
    finally:
        dataset.unload(indices)


def typical_indices(dataset: Dataset, most: int) -> list[int]:
    """Return indices spread over the dataset: so many, and no more than warming up takes."""
    count = min(dataset.count, most, _TYPICAL_SAMPLES)
    return [number * dataset.count // count for number in range(count)]
