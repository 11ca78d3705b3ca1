"""A graph with state as machine code of this CPU: compiled once for all sizes that its dimensions take."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from mlbench.contracts.graph import Dim, Graph, TensorSpec
from mlbench.errors import GraphError
from mlbench.execution.compile_cache import made_once
from mlbench.execution.tracing import by_parameter, example_tensors, varying_axes

FILE = "graph.pt2"

CPU_FACTS = Path("/proc/cpuinfo")

logger = logging.getLogger(__name__)


def compiled_ahead(module: torch.nn.Module, graph: Graph) -> Callable[..., Sequence[torch.Tensor]]:
    """Return a module, fp32 and on the CPU, as a function of tensors that updates the state it is given in place.

    torch.compile would compile in the middle of a run whenever new sizes come; this has met them all. The code and the
    weights are kept in the cache, for this processor and as many threads as torch has now.

    Raises:
        GraphError: torch cannot trace or compile the module, or there is no C++ compiler.
    """
    folder = made_once("ahead_of_time", _made_from(graph), lambda folder: _write(module, graph, folder / FILE))
    loaded: Callable[..., Sequence[torch.Tensor]] = torch._inductor.aoti_load_package(os.fspath(folder / FILE))
    return loaded


def _made_from(graph: Graph) -> list[Any]:
    """Return all that decides what the code is."""
    specs = [[asdict(spec) for spec in tensors] for tensors in (graph.inputs, graph.outputs, graph.state)]
    versions = [metadata.version(name) for name in ("mlbench", "torch")]
    return [graph.name, graph.fingerprint, specs, versions, _instructions(), torch.get_num_threads()]


def _instructions() -> str:
    """Return what the processor can do, as Linux lists it."""
    lines = CPU_FACTS.read_text(encoding="utf-8").splitlines() if CPU_FACTS.exists() else []
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _write(module: torch.nn.Module, graph: Graph, file: Path) -> None:
    logger.info("compiling %s ahead of time", graph.name)
    specs = (*graph.inputs, *graph.state)
    dims: dict[str, Any] = {}
    try:
        with torch.no_grad():
            program = torch.export.export(
                module,
                example_tensors(specs),
                dynamic_shapes=by_parameter(module, [_dynamic_axes(spec, dims) for spec in specs]),
                strict=False,
            )
            torch._inductor.aoti_compile_and_package(program, package_path=os.fspath(file))
    except Exception as error:  # the tracer and the compiler raise anything, from deep inside
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:300].rstrip(".")
        raise GraphError(
            f"graph {graph.name} cannot be compiled ahead of time: {reason}.",
            hint="Install a C++ compiler where none is found; else leave backend.compile at false.",
        ) from error


def _dynamic_axes(spec: TensorSpec, dims: dict[str, Any]) -> Mapping[int, Any]:
    """Return the axes that vary as torch wants them: what has one name is one object."""
    return {axis: dims.setdefault(dim.name, _as_torch(dim)) for axis, dim in varying_axes(spec).items()}


def _as_torch(dim: Dim) -> Any:
    return torch.export.Dim(dim.name, min=dim.smallest, max=dim.largest)
