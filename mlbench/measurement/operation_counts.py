"""The work of a performance test: its graph calls, and what they take at least."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import psutil

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.graph import Precision
from mlbench.contracts.model import Model
from mlbench.contracts.statistics import EngineStatistics
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError
from mlbench.execution.call_costs import CallCost, NotCountedError, count_cost, find_cost
from mlbench.execution.isolation import Channel, Failure, ProcessLimits, call_isolated
from mlbench.measurement.job import Job

NUMBER_BYTES = {Precision.FP32: 4, Precision.BF16: 2, Precision.FP16: 2, Precision.INT8: 1, Precision.FP8: 1}
"""What a number of weights or state takes at least; a backend may keep some of them in a wider form."""

_BUDGET_S = 20.0
_SILENCE_S = 240.0
_MEMORY_SHARE = 0.8


def count_operations(
    calls: Sequence[GraphCalls], job: Job, payload: Mapping[str, Any], model: Model, channel: Channel
) -> str:
    """See to it that what these calls take is in the cache, as far as some seconds reach; return why not.

    Counting builds the model once more, in a process of its own: whatever happens there costs no run.
    """
    if job.uncounted:
        return job.uncounted
    if not calls:
        return "the engine does not count its graph calls"
    try:
        if all(find_cost(model.graphs[call.graph], call) for call in calls):
            return ""
    except NotCountedError as error:
        return str(error)
    limits = ProcessLimits(
        stage_timeout_s=min(_SILENCE_S, job.load.stage_timeout_s / 2),
        memory_bytes=int(_MEMORY_SHARE * psutil.virtual_memory().available),
    )
    request = {"job": dict(payload), "calls": [asdict(call) for call in calls]}
    try:
        found = call_isolated(
            "mlbench.measurement.operation_counts:fill_cache",
            request,
            job.folder / "operations.txt",
            limits,
            lambda progress: channel.progress("operations"),
        )
    except MlbenchError as error:
        return error.message
    return found.message if isinstance(found, Failure) else str(found["reason"])


def fill_cache(payload: Mapping[str, Any], channel: Channel) -> Mapping[str, Any]:
    """Count what calls take, the most frequent first, until the time is over; return why not all was counted."""
    from mlbench.execution.operations import OperationCounter  # brings torch

    job = Job.from_payload(payload["job"], Plugins.discover())
    model = job.workload.model(job.variant)
    counters: dict[str, OperationCounter] = {}
    calls, spent_s = [GraphCalls(**fields) for fields in payload["calls"]], 0.0
    try:
        for number, call in enumerate(calls):
            channel.progress("operations")
            if spent_s > _BUDGET_S:
                return {"reason": f"{len(calls) - number} of {len(calls)} different calls are left for the next run"}
            graph = model.graphs[call.graph]
            if call.graph not in counters:
                counters[call.graph] = OperationCounter(graph)
            started_s = time.monotonic()
            count_cost(graph, call, counters[call.graph].cost)
            spent_s += time.monotonic() - started_s
    except NotCountedError as error:
        return {"reason": str(error)}
    return {"reason": ""}


def work_of(
    calls: Sequence[GraphCalls], model: Model, job: Job, statistics: EngineStatistics, samples: int
) -> Mapping[str, Any]:
    """Return the work of so many samples as the record's values; the cost of each call is in the cache."""
    costs = [find_cost(model.graphs[call.graph], call) for call in calls]
    names = dict.fromkeys(call.graph for call in calls)
    graphs = [_of_graph(name, calls, costs, job.plan.precision) for name in names]
    return {
        "graphs": graphs,
        "operations_per_sample": sum(graph["operations"] for graph in graphs) / samples,
        "bytes_per_sample": sum(graph["bytes"] for graph in graphs) / samples,
        "useful_share": statistics.useful_share,
    }


def _of_graph(
    name: str, calls: Sequence[GraphCalls], costs: Sequence[CallCost | None], precision: Precision
) -> dict[str, Any]:
    own = [(call.count, cost) for call, cost in zip(calls, costs, strict=True) if call.graph == name and cost]
    return {
        "graph": name,
        "calls": sum(count for count, _ in own),
        "shapes": len(own),
        "operations": sum(count * cost.operations for count, cost in own),
        "bytes": sum(count * cost.bytes_at(NUMBER_BYTES[precision]) for count, cost in own),
    }
