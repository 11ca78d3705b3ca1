"""A run's engine, in its own process or in several of theirs, ready to be driven."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.discovery import Plugins
from mlbench.execution.instances.engine import Building, ReplicatedEngine
from mlbench.execution.instances.serving import Part
from mlbench.execution.isolation import peak_bytes
from mlbench.execution.pace import Pace, crowded, measured_pace
from mlbench.execution.variations import Variation, VariedDataset
from mlbench.measurement.job import Job

_PART_OF_RUN = f"{__name__}:part_of_run"
_TYPICAL_SAMPLES = 64
_CROWDS = ("Server", "Offline")  # where LoadGen is told a rate of samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An engine, and what must be done where it is."""

    engine: Engine
    dataset: Dataset
    """Loads samples where the engine finds them."""
    vary: Callable[[Mapping[int, Variation]], Dataset]
    """Makes variations of loaded samples where the engine finds them; holds until it is called again."""
    runtime: Callable[[], Mapping[str, Any]]
    """Observes the runtime that the engine uses."""
    peak_memory_bytes: Callable[[], int]
    """Of all processes that it has, this one too."""


@contextmanager
def made_ready(job: Job, payload: Mapping[str, Any], model: Model, dataset: Dataset) -> Iterator[Ready]:
    """Give a job's engine.

    Raises:
        MlbenchError: as `Backend.engine` does.
        ProcessEndedError: an instance came to its end.
    """
    instances = job.plan.instances
    if instances == 1:
        with job.backend.engine(model, job.plan) as engine:
            yield Ready(
                engine=engine,
                dataset=dataset,
                vary=lambda variations: VariedDataset(dataset, variations),
                runtime=job.backend.observe,
                peak_memory_bytes=peak_bytes,
            )
        return
    assert instances != "auto"
    building = Building(builder=_PART_OF_RUN, payload=payload)
    with ReplicatedEngine(building, instances, model, job.plan, dataset) as replicated:
        yield Ready(
            engine=replicated,
            dataset=replicated.library,
            vary=replicated.vary,
            runtime=replicated.runtime,
            peak_memory_bytes=lambda: peak_bytes() + replicated.peak_memory_bytes(),
        )


def part_of_run(payload: Mapping[str, Any]) -> Part:
    """Return what an instance of a run is made of; called in its process."""
    job = Job.from_payload(payload, Plugins.discover())
    return Part(
        backend=job.backend,
        model=job.workload.model(job.variant),
        plan=job.plan,
        dataset=job.workload.dataset(job.variant),
    )


def warmed_up(ready: Ready, job: Job, model: Model) -> Pace:
    """Warm the engine up on samples spread over the dataset, and time it roughly: a query, some, and a crowd."""
    engine, dataset = ready.engine, ready.dataset
    indices = typical_indices(dataset, _TYPICAL_SAMPLES)
    dataset.load(indices)
    samples = Samples(list(range(len(indices))), indices, dataset)
    engine.warm_up(samples)
    pace = measured_pace(engine, samples, query_size(job), job.load.stall_timeout_s)
    if isinstance(model.program, GenerationProgram) and job.scenario.loadgen in _CROWDS:
        pace = crowded(pace, engine, samples, job.load.stall_timeout_s)
    dataset.unload(indices)
    return pace


def typical_indices(dataset: Dataset, most: int) -> list[int]:
    """Return indices spread over the dataset: so many, and no more than warming up takes."""
    count = min(dataset.count, most, _TYPICAL_SAMPLES)
    return [number * dataset.count // count for number in range(count)]


def query_size(job: Job) -> int:
    """Return how many samples LoadGen asks for at a time where it waits for the answer; 1 elsewhere."""
    return job.load.samples_per_query if job.scenario.loadgen == "MultiStream" else 1
