"""A graph as one ONNX file: exported once, checked, kept in the cache under the hash of what it was made from."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench.contracts.graph import Dim, Graph, TensorSpec
from mlbench.errors import GraphError, UnavailableError
from mlbench.execution.compile_cache import made_once
from mlbench.execution.onnx_slices import merge_slices

if TYPE_CHECKING:
    import torch

OPSET = 18
"""Of the ai.onnx domain: the lowest the dynamo exporter writes without converting, so the one most runtimes read."""

NEXT = ".next"
"""Ends the name of a state tensor among the outputs."""

EXPORTERS = ("mlbench", "torch", "onnxscript", "onnx")
"""The distributions whose versions decide what the file holds."""

_TALKERS = ("onnx_ir", "onnxscript")
"""Loggers of the exporter's optimiser, which tell of every constant: hundreds of lines in the log of a run."""

logger = logging.getLogger(__name__)


def exported(graph: Graph) -> Path:
    """Return the path of the graph as an ONNX file, exporting it where the cache does not have it.

    Inputs and outputs carry the names of the graph's specs, and each `Dim` is a symbolic dimension of that name. The
    tensors of `Graph.state` come after the inputs, and after the outputs with `NEXT` behind their names.
    Weights are inside the file, unless they exceed what one file holds (2 GB): then they lie beside it.

    Raises:
        GraphError: the graph cannot be expressed in ONNX; names the operator or the reason.
        UnavailableError: the exporter is not installed.
    """
    folder = made_once("onnx", _made_from(graph), lambda folder: _write(graph, folder / _file_name(graph)))
    return folder / _file_name(graph)


def _file_name(graph: Graph) -> str:
    return f"{graph.name}.onnx"


def _made_from(graph: Graph) -> list[Any]:
    """Return all that decides the file's contents."""
    try:
        versions = {name: metadata.version(name) for name in EXPORTERS}
    except metadata.PackageNotFoundError as error:
        raise UnavailableError(
            f"ONNX export needs {error.name}, which is not installed.", hint="pip install 'mlbench[workloads]'"
        ) from None
    specs = [[asdict(spec) for spec in tensors] for tensors in (graph.inputs, graph.outputs, graph.state)]
    return [graph.name, graph.fingerprint, specs, versions, OPSET]


def _write(graph: Graph, path: Path) -> None:
    """Export the graph to ``path`` and check the file."""
    import torch

    logger.info("exporting %s to ONNX", graph.name)
    inputs, outputs = _inputs(graph), _outputs(graph)
    module, sizes = graph.module(), _example_sizes(inputs)
    examples = tuple(torch.zeros(_shape(spec, sizes), dtype=getattr(torch, spec.dtype)) for spec in inputs)
    _take_one_by_one(module, len(inputs))
    try:
        with _quiet():
            program = torch.onnx.export(
                module,
                examples,
                dynamo=True,
                opset_version=OPSET,
                input_names=[spec.name for spec in inputs],
                output_names=[spec.name for spec in outputs],
                dynamic_shapes=tuple(_dynamic_axes(spec) for spec in inputs),
                verbose=False,
            )
            assert program is not None  # only the exporter without dynamo returns None
            program.save(path, external_data=False)
    except Exception as error:  # the exporter raises anything, from deep inside
        raise GraphError(f"graph {graph.name} cannot be exported to ONNX: {_reason(error)}.") from error
    _finish(graph, path)


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
        raise GraphError(f"graph {graph.name} exports to an invalid ONNX file: {_reason(error)}.") from error
    specs, values = (*_inputs(graph), *_outputs(graph)), (*model.graph.input, *model.graph.output)
    for spec, value in zip(specs, values, strict=True):
        if difference := _difference(spec, value):
            raise GraphError(f"graph {graph.name} differs from its specs when exported: {spec.name} {difference}.")


def _inputs(graph: Graph) -> tuple[TensorSpec, ...]:
    """Return the specs of the file's inputs."""
    return (*graph.inputs, *graph.state)


def _outputs(graph: Graph) -> tuple[TensorSpec, ...]:
    """Return the specs of the file's outputs."""
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
        if isinstance(wanted, Dim) and _varies(wanted) and found.HasField("dim_value"):
            return f"has {wanted.name} fixed at {found.dim_value}"
    return ""


def _varies(dim: Dim) -> bool:
    """Tell whether a dimension takes more than one size."""
    return dim.smallest < dim.largest


def _dynamic_axes(spec: TensorSpec) -> dict[int, str]:
    """Return the names of the axes that vary, by position."""
    return {axis: dim.name for axis, dim in enumerate(spec.shape) if isinstance(dim, Dim) and _varies(dim)}


def _take_one_by_one(module: torch.nn.Module, count: int) -> None:
    """Give ``forward`` a parameter for each tensor: torch 2.9 cannot export what takes a ``*state``."""
    forward = module.forward

    def flat(*tensors: torch.Tensor) -> Any:
        return forward(*tensors)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    flat.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(f"tensor_{number}", kind) for number in range(count)]
    )
    module.forward = flat


def _shape(spec: TensorSpec, sizes: dict[str, int]) -> list[int]:
    """Return the spec's shape with these sizes for its dimensions."""
    return [sizes[dim.name] if isinstance(dim, Dim) else dim for dim in spec.shape]


def _example_sizes(inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """Return a size to trace with for each dimension.

    At least 2 where it varies, since torch.export takes a 1 for a constant; unlike each other where their ranges
    allow, since equal sizes may be taken for one dimension; and either a `Dim`'s own numbers or from 2 upwards, since
    between two legal sizes there may be illegal ones (multiples of 32).
    """
    sizes: dict[str, int] = {}
    for dim in (dim for spec in inputs for dim in spec.shape if isinstance(dim, Dim)):
        if dim.name not in sizes:
            choices = range(2, dim.largest + 1) if dim.smallest == 1 else (dim.smallest, dim.usual, dim.largest)
            unused = (size for size in choices if size not in sizes.values())
            sizes[dim.name] = next(unused, choices[0] if choices else 1)
    return sizes


def _reason(error: BaseException) -> str:
    """Return the first line of the error at the root of a chain, which names the operator."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what the exporter prints, warns and logs to our log instead."""
    for name in _TALKERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    printed = io.StringIO()
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            warnings.simplefilter("default")
            yield
    finally:
        for line in (*(str(warning.message) for warning in warned), *printed.getvalue().splitlines()):
            logger.debug("exporter: %s", line)
