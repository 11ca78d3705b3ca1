"""A graph as machine code of this CPU: compiled once for all sizes that its dimensions take."""

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
from mlbench.toolkit.torch_backend.package_runner import package_class

FILE = "graph.pt2"

logger = logging.getLogger(__name__)


def compile_ahead(module: torch.nn.Module, graph: Graph) -> Callable[..., Sequence[torch.Tensor]]:
    """Return a module, fp32 and on the CPU, as a function of tensors, which updates state in place.

    torch.compile would compile in the middle of a run whenever new sizes come; this is compiled for all of them, and
    for any number of threads. The code and the weights are kept in the cache, for this processor.

    Raises:
        GraphError: torch cannot trace or compile the module, or there is no C++ compiler.
        UnavailableError: the compiler cannot build what runs the code.
    """
    folder = build_once("ahead_of_time", cache_key(graph), lambda folder: _write(module, graph, folder / FILE))
    package = package_class()(os.fspath(folder / FILE))

    def run(*tensors: torch.Tensor) -> Sequence[torch.Tensor]:
        returned: Sequence[torch.Tensor] = package.run(list(tensors))
        return returned

    return run


def cache_key(graph: Graph) -> list[Any]:
    """Return all that decides what the code is."""
    specs = [[asdict(spec) for spec in tensors] for tensors in (graph.inputs, graph.outputs, graph.state)]
    return [graph.name, graph.fingerprint, specs, tracing_versions(graph), sorted(machine_flags())]


def _write(module: torch.nn.Module, graph: Graph, file: Path) -> None:
    logger.info("compiling %s ahead of time", graph.name)
    program = export_program(graph, module)
    # frozen weights are laid out and fused for oneDNN; with state that is not tested
    settings = {"cpp.dynamic_threads": True, "freezing": not graph.state}
    try:
        with graph_step(graph, "compiled ahead of time"), torch._inductor.config.patch(settings):
            torch._inductor.aoti_compile_and_package(program, package_path=os.fspath(file))
    except GraphError as error:
        hint = "Install a C++ compiler where none is found; else leave backend.compile at false."
        raise GraphError(error.message, hint=hint) from error
