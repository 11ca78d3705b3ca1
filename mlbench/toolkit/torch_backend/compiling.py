"""Decides whether a graph is compiled where a setting leaves that open: graphs compiled once for all sizes are."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from mlbench.contracts.graph import Graph
from mlbench.contracts.precision import Precision

if TYPE_CHECKING:
    import torch

MOST_BYTES = 1 << 30
"""Most weights of a graph that is compiled where a setting leaves it open: they are kept in the cache beside the code,
and a graph of many layers takes many minutes."""


def why_eager(graph: Graph, module: torch.nn.Module, device: torch.device, precision: Precision) -> str:
    """Return the reason why a graph with state is not compiled ahead of time unless a setting says so; empty if it is.

    The answer is the same in each run on a machine, whatever its cache holds.
    """
    if device.type != "cpu" or precision is not Precision.FP32:
        return f"{precision} on {device.type}: compiled ahead of time is fp32 on a CPU"
    is_replaced = "module" in getattr(graph, "__dict__", ())  # the cache would take a caller's own for the graph's
    if graph.is_used_once or is_replaced:
        return "it is used once"
    size = sum(weight.numel() * weight.element_size() for weight in module.parameters())
    if size > MOST_BYTES:
        return f"{size / 2**30:.1f} GiB of weights, more than {MOST_BYTES / 2**30:g} GiB"
    command = os.environ.get("CXX", "g++")  # as torch's compiler looks for it
    return "" if shutil.which(command) else f"no C++ compiler ({command})"
