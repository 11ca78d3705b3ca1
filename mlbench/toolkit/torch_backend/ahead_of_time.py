"""A graph with state as machine code of this CPU: compiled once for all sizes that its dimensions take."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from mlbench.contracts.graph import Graph
from mlbench.errors import GraphError
from mlbench.execution.export.compile_cache import build_once
from mlbench.execution.export.tracing import tracing_versions
from mlbench.system.processor import machine_flags
from mlbench.toolkit.exported_program import export_program, graph_step

FILE = "graph.pt2"

logger = logging.getLogger(__name__)


def compile_ahead(module: torch.nn.Module, graph: Graph) -> Callable[..., Sequence[torch.Tensor]]:
    """Return a module, fp32 and on the CPU, as a function of tensors that updates the state it is given in place.

    torch.compile would compile in the middle of a run whenever new sizes come; this is compiled for all of them, and
    for any number of threads. The code and the weights are kept in the cache, for this processor.

    Raises:
        GraphError: torch cannot trace or compile the module, or there is no C++ compiler.
    """
    folder = build_once("ahead_of_time", _cache_key(graph), lambda folder: _write(module, graph, folder / FILE))
    loader = torch._inductor.aoti_load_package(os.fspath(folder / FILE)).loader

    def run(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        returned: Sequence[torch.Tensor] = loader.boxed_run(list(tensors))  # a call of the package parses its form anew
        return returned

    return run


def _cache_key(graph: Graph) -> list[Any]:
    """Return all that decides what the code is."""
    specs = [[asdict(spec) for spec in tensors] for tensors in (graph.inputs, graph.outputs, graph.state)]
    return [graph.name, graph.fingerprint, specs, tracing_versions(graph), sorted(machine_flags())]


def _write(module: torch.nn.Module, graph: Graph, file: Path) -> None:
    logger.info("compiling %s ahead of time", graph.name)
    program = export_program(graph, module)
    try:
        with graph_step(graph, "compiled ahead of time"), torch._inductor.config.patch({"cpp.dynamic_threads": True}):
            torch._inductor.aoti_compile_and_package(program, package_path=os.fspath(file))
    except GraphError as error:
        hint = "Install a C++ compiler where none is found; else leave backend.compile at false."
        raise GraphError(error.message, hint=hint) from error
