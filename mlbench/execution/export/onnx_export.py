"""A graph as one ONNX file: exported once, checked, and cached under a hash of its inputs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cache
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from mlbench.contracts.graph import NEXT, Dim, Graph, TensorSpec
from mlbench.errors import GraphError, UnavailableError
from mlbench.execution.export.compile_cache import build_once, is_built
from mlbench.execution.export.onnx_slices import merge_slices
from mlbench.execution.export.tracing import (
    dynamic_axes,
    example_inputs,
    example_sizes,
    quiet,
    root_reason,
    take_one_by_one,
    tracing_versions,
    varies,
)

OPSET = 18
"""Opset of the ai.onnx domain: the lowest that the dynamo exporter writes directly, so the one most runtimes read."""

EXPORTERS = ("torch", "onnxscript", "onnx")
"""The distributions that write the file: another version may write another one."""

logger = logging.getLogger(__name__)

_SHELF = "onnx"

_watchers: list[Callable[[], None]] = []


@contextmanager
def watch_exports(is_missing: Callable[[], None]) -> Iterator[None]:
    """Have ``is_missing`` called in this block before a graph is exported that the cache does not have.

    It is called on the thread that asks for the graph, and may fill the cache: then the graph is not exported.
    """
    _watchers.append(is_missing)
    try:
        yield
    finally:
        _watchers.remove(is_missing)


def export_onnx(graph: Graph) -> Path:
    """Return the path of the graph as an ONNX file, exporting it where the cache does not have it.

    Inputs and outputs carry the names of the graph's specs, and each `Dim` is a symbolic dimension of that name. The
    tensors of `Graph.state` come after the inputs, and after the outputs with `NEXT` behind their names.
    Weights are inside the file up to 1.5 GiB; above that they lie beside it, and the file alone does not tell two
    checkpoints apart: what is made from it is kept under `mlbench.toolkit.onnx_identity`.

    Raises:
        GraphError: the graph cannot be expressed in ONNX; names the operator or the reason.
        UnavailableError: the exporter is not installed.
    """
    key = _cache_key(graph)
    if _watchers and not is_built(_SHELF, key):
        for is_missing in _watchers:
            is_missing()
    folder = build_once(_SHELF, key, lambda folder: _write(graph, folder / _file_name(graph)))
    return folder / _file_name(graph)


def _file_name(graph: Graph) -> str:
    return f"{graph.name}.onnx"


def _cache_key(graph: Graph) -> list[Any]:
    """Return all that decides the file's contents."""
    try:
        versions = tracing_versions(graph) | {name: metadata.version(name) for name in EXPORTERS}
    except metadata.PackageNotFoundError as error:
        raise UnavailableError(
            f"ONNX export needs {error.name}, which is not installed.",
            hint="pip install 'mlbench-inference[workloads]'",
        ) from None
    specs = [[asdict(spec) for spec in tensors] for tensors in (graph.inputs, graph.outputs, graph.state)]
    return [graph.name, graph.fingerprint, specs, versions, OPSET]


def _write(graph: Graph, path: Path) -> None:
    """Export the graph to ``path`` and check the file."""
    import torch

    logger.info("exporting %s to ONNX", graph.name)
    inputs, outputs = onnx_inputs(graph), onnx_outputs(graph)
    module, examples = graph.module(), example_inputs(inputs, example_sizes(inputs))
    take_one_by_one(module, len(inputs))
    _read_operators_once()
    try:
        with quiet():
            program = torch.onnx.export(
                module,
                examples,
                dynamo=True,
                opset_version=OPSET,
                input_names=[spec.name for spec in inputs],
                output_names=[spec.name for spec in outputs],
                dynamic_shapes=tuple(dynamic_axes(spec) for spec in inputs),
                verbose=False,
            )
            assert program is not None  # only the exporter without dynamo returns None
            program.save(path, external_data=False)
    except Exception as error:  # the exporter raises anything, from deep inside
        raise GraphError(f"graph {graph.name} cannot be exported to ONNX: {root_reason(error)}.") from error
    _finish(graph, path)


@cache
def _read_operators_once() -> None:
    """Have the exporter parse the source of its operators for the first graph alone, which takes half a second."""
    with suppress(Exception):  # torch keeps this to itself, and may move it
        onnxscript_apis = import_module("torch.onnx._internal._lazy_import").onnxscript_apis
        onnxscript_apis.get_torchlib_ops = cache(onnxscript_apis.get_torchlib_ops)


def _finish(graph: Graph, path: Path) -> None:
    """Strip the file of annotations, merge its slices, and check it against the ONNX standard and the graph's specs."""
    import onnx

    model = onnx.load(path, load_external_data=False)
    # ONNX Runtime's quantisers stumble over the exporter's shape annotations; its notes on nodes quote source paths.
    del model.graph.value_info[:]
    for node in model.graph.node:
        del node.metadata_props[:]
    merge_slices(model.graph)
    onnx.save(model, path)
    try:
        onnx.checker.check_model(os.fspath(path))
    except onnx.checker.ValidationError as error:
        raise GraphError(f"graph {graph.name} exports to an invalid ONNX file: {root_reason(error)}.") from error
    specs, values = (*onnx_inputs(graph), *onnx_outputs(graph)), (*model.graph.input, *model.graph.output)
    for spec, value in zip(specs, values, strict=True):
        if difference := _difference(spec, value):
            raise GraphError(f"graph {graph.name} differs from its specs when exported: {spec.name} {difference}.")


def onnx_inputs(graph: Graph) -> tuple[TensorSpec, ...]:
    """Return the specs of the inputs of a graph's ONNX file: its own, then its state."""
    return (*graph.inputs, *graph.state)


def onnx_outputs(graph: Graph) -> tuple[TensorSpec, ...]:
    """Return the specs of the outputs of a graph's ONNX file: its own, then the next state."""
    return (*graph.outputs, *(replace(spec, name=spec.name + NEXT) for spec in graph.state))


def _difference(spec: TensorSpec, value: Any) -> str:
    """Return how an exported input or output differs from its spec; empty when it does not."""
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name
    if value.name != spec.name:
        return f"is called {value.name}"
    if dtype != spec.dtype:
        return f"is {dtype}, not {spec.dtype}"
    if len(tensor.shape.dim) != len(spec.shape):
        return f"has {len(tensor.shape.dim)} axes, not {len(spec.shape)}"
    for wanted, found in zip(spec.shape, tensor.shape.dim, strict=True):
        if isinstance(wanted, Dim) and varies(wanted) and found.HasField("dim_value"):
            return f"has {wanted.name} fixed at {found.dim_value}"
    return ""
