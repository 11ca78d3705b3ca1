"""A graph's module as torch.export sees it: a program of operators, with the dimensions that vary left open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlbench.contracts.graph import Graph
from mlbench.errors import GraphError
from mlbench.execution.export.tracing import (
    dynamic_axes,
    example_inputs,
    quiet,
    root_reason,
    take_one_by_one,
    usual_sizes,
)
from mlbench.system.guards import convert_errors

if TYPE_CHECKING:
    import torch


@contextlib.contextmanager
def graph_step(graph: Graph, done: str) -> Iterator[None]:
    """Work with a graph without gradients and without output: torch's prints and warnings go to the log.

    Raises:
        GraphError: the block raised anything: ``graph reader cannot be traced: ...``, where ``done`` is ``traced``.
    """
    import torch

    def refuse(error: Exception) -> GraphError:
        return GraphError(f"graph {graph.name} cannot be {done}: {root_reason(error)}.")

    with convert_errors(refuse, passes=GraphError), quiet(), torch.no_grad():
        yield


def export_program(graph: Graph, module: torch.nn.Module, *, strict: bool = False) -> torch.export.ExportedProgram:
    """Return a module that computes a graph as a program, traced at the graph's usual sizes.

    Args:
        graph: whose inputs, and state behind them, the module takes.
        module: what computes it.
        strict: trace by reading Python's bytecode, which tells each use of a module used twice; else by running it.

    Raises:
        GraphError: torch cannot trace the module, or a dimension that varies is fixed in it.
    """
    import torch

    specs = (*graph.inputs, *graph.state)
    axes = tuple(dict.fromkeys(dynamic_axes(spec), torch.export.Dim.DYNAMIC) for spec in specs)
    examples = example_inputs(specs, usual_sizes(specs))
    take_one_by_one(module, len(specs))
    with graph_step(graph, "traced"):
        return torch.export.export(module, examples, dynamic_shapes=axes, strict=strict)
