"""The work of a performance test: its graph calls, and their minimum operations and bytes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.model import Model
from mlbench.contracts.precision import Precision
from mlbench.contracts.statistics import EngineStatistics
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError
from mlbench.execution.processes.isolation import Channel, ChildFunction, Failure, ProcessLimits, call_isolated
from mlbench.measurement.job import Job
from mlbench.records.job_spec import JobSpec
from mlbench.records.work_record import GraphWorkRecord, WorkRecord
from mlbench.roofline.call_costs import CallCost, NotCountedError, count_cost, find_cost

NUMBER_BYTES = {Precision.FP32: 4, Precision.BF16: 2, Precision.FP16: 2, Precision.INT8: 1, Precision.FP8: 1}
"""Minimum bytes of a number of weights or state; a backend may keep some in a wider type. Of other precisions it is not
known, and no work is counted."""

_BUDGET_S = 20.0
_SILENCE_S = 240.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRequest:
    """Calls to count the work of, and the job with their model."""

    job: JobSpec
    calls: Sequence[GraphCalls]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAnswer:
    """The progress of counting."""

    reason: str
    """Reason why the count is incomplete; empty if it is complete."""


def count_operations(calls: Sequence[GraphCalls], job: Job, model: Model, channel: Channel) -> str:
    """Fill the cache with the work of these calls, within some seconds; return why it is incomplete.

    Counting builds the model once more, in a process of its own: a failure there does not affect the run.
    """
    if reason := _reason_not_to_count(calls, job):
        return reason
    try:
        if all(find_cost(model.graphs[call.graph], call) for call in calls):
            return ""
    except NotCountedError as error:
        return str(error)
    limits = ProcessLimits.for_helper(min(_SILENCE_S, job.load.stage_timeout_s / 2))
    try:
        found = call_isolated(
            ChildFunction(f"{__name__}:{fill_cache.__name__}", CountAnswer),
            CountRequest(job=job.spec, calls=calls),
            job.folder / "operations.txt",
            limits,
            lambda progress: channel.progress("operations"),
        )
    except MlbenchError as error:
        return error.message
    return found.message if isinstance(found, Failure) else found.reason


def fill_cache(request: CountRequest, channel: Channel) -> CountAnswer:
    """Count the work of calls, the most frequent first, until time is up; return why not all was counted."""
    from mlbench.roofline.operations import OperationCounter  # brings torch

    job = Job.of_spec(request.job, Plugins.discover())
    model = job.model()
    counters: dict[str, OperationCounter] = {}
    calls, spent_s = request.calls, 0.0
    try:
        for number, call in enumerate(calls):
            channel.progress("operations")
            if spent_s > _BUDGET_S:
                left = f"{len(calls) - number} of {len(calls)} different calls are left for the next run"
                return CountAnswer(reason=left)
            graph = model.graphs[call.graph]
            if call.graph not in counters:
                counters[call.graph] = OperationCounter(graph)
            started_s = time.monotonic()
            count_cost(graph, call, counters[call.graph].cost)
            spent_s += time.monotonic() - started_s
    except NotCountedError as error:
        return CountAnswer(reason=str(error))
    return CountAnswer(reason="")


def _reason_not_to_count(calls: Sequence[GraphCalls], job: Job) -> str:
    if job.spec.uncounted:
        return job.spec.uncounted
    if not calls:
        return "the engine does not count its graph calls"
    precision = job.plan.precision
    return "" if precision in NUMBER_BYTES else f"how many bytes a number takes in {precision} is unknown"


def work_of(  # noqa: PLR0913 - two counts of the test, beside what was called
    calls: Sequence[GraphCalls],
    model: Model,
    job: Job,
    statistics: EngineStatistics,
    *,
    samples: int,
    samples_per_s: float | None,
) -> WorkRecord:
    """Return the work of a test's samples; the cost of each call is in the cache."""
    costs = [find_cost(model.graphs[call.graph], call) for call in calls]
    names = dict.fromkeys(call.graph for call in calls)
    graphs = [_of_graph(name, calls, costs, job.plan.precision) for name in names]
    return WorkRecord(
        graphs=graphs,
        operations_per_sample=sum(graph.operations for graph in graphs) / samples,
        bytes_per_sample=sum(graph.bytes for graph in graphs) / samples,
        samples_per_s=samples_per_s,
        useful_share=statistics.useful_share,
    )


def _of_graph(
    name: str, calls: Sequence[GraphCalls], costs: Sequence[CallCost | None], precision: Precision
) -> GraphWorkRecord:
    own = [(call.count, cost) for call, cost in zip(calls, costs, strict=True) if call.graph == name and cost]
    return GraphWorkRecord(
        graph=name,
        calls=sum(count for count, _ in own),
        shapes=len(own),
        operations=sum(count * cost.operations for count, cost in own),
        bytes=sum(count * cost.bytes_at(NUMBER_BYTES[precision]) for count, cost in own),
    )
