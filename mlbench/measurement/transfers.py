"""The bytes that go into graphs and come out of them, from the shapes of their calls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.graph import Dim, Graph
from mlbench.contracts.model import Model
from mlbench.records.transfers_record import GraphTransfersRecord, TransfersRecord


def transfers_of(calls: Sequence[GraphCalls], model: Model, *, samples: int) -> TransfersRecord | None:
    """Return the transfers of a test's calls; None if the engine counts no calls."""
    names = dict.fromkeys(call.graph for call in calls)
    graphs = [_of_graph(model.graphs[name], [call for call in calls if call.graph == name]) for name in names]
    calls_per_sample, bytes_per_sample = per_sample(graphs, samples)
    found = TransfersRecord(graphs=graphs, calls_per_sample=calls_per_sample, bytes_per_sample=bytes_per_sample)
    return found if graphs else None


def per_sample(graphs: Sequence[GraphTransfersRecord], samples: int) -> tuple[float, float | None]:
    """Return calls and bytes for each sample; of the bytes None where those of a graph are unknown."""
    counts = [count for each in graphs for count in (each.input_bytes, each.output_bytes)]
    known = [count for count in counts if count is not None]
    bytes_per_sample = sum(known) / samples if len(known) == len(counts) else None
    return sum(each.calls for each in graphs) / samples, bytes_per_sample


def _of_graph(graph: Graph, calls: Sequence[GraphCalls]) -> GraphTransfersRecord:
    received = [_output_bytes(graph, call) for call in calls]
    known = [call.count * size for call, size in zip(calls, received, strict=True) if size is not None]
    return GraphTransfersRecord(
        graph=graph.name,
        calls=sum(call.count for call in calls),
        input_bytes=sum(call.count * _input_bytes(graph, call) for call in calls),
        output_bytes=sum(known) if len(known) == len(calls) else None,
    )


def _input_bytes(graph: Graph, call: GraphCalls) -> int:
    return sum(math.prod(call.shapes[spec.name]) * np.dtype(spec.dtype).itemsize for spec in graph.inputs)


def _output_bytes(graph: Graph, call: GraphCalls) -> int | None:
    """Return the bytes of a call's outputs; None where its inputs do not decide their sizes."""
    sizes = {
        dim.name: size
        for spec in graph.inputs
        for dim, size in zip(spec.shape, call.shapes[spec.name], strict=True)
        if isinstance(dim, Dim)
    }
    try:
        shapes = [spec.concrete_shape(sizes) for spec in graph.outputs]
    except KeyError:
        return None
    items = [np.dtype(spec.dtype).itemsize for spec in graph.outputs]
    return sum(math.prod(shape) * size for shape, size in zip(shapes, items, strict=True))
