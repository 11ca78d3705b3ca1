"""Decides whether a graph is compiled where a setting leaves that open: graphs compiled once for all sizes are."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from mlbench.contracts.graph import Executable, Graph
from mlbench.contracts.precision import Precision
from mlbench.execution.batch_sweep import run_for
from mlbench.execution.export.compile_cache import build_once
from mlbench.execution.export.tracing import usual_sizes
from mlbench.system.documents import read_json_object
from mlbench.toolkit.torch_backend.cxx_compiler import cxx, has_cxx

if TYPE_CHECKING:
    import torch

MOST_BYTES = 1 << 30
"""Most weights of a graph that is compiled where a setting leaves it open: they are kept in the cache beside the code,
and a graph of many layers takes many minutes."""
LEAST_GAIN = 1.05
"""Least speed of compiled code in those of the module: within less the two are alike."""
_FILE = "speed.json"
_BUDGET_S, _TRY_S = 1.0, 0.05

logger = logging.getLogger(__name__)


def why_eager(graph: Graph, module: torch.nn.Module, device: torch.device, precision: Precision) -> str:
    """Return the reason why a graph is not compiled ahead of time unless a setting says so; empty if it is.

    The answer is the same in each run on a machine, whatever its cache holds.
    """
    if device.type != "cpu" or precision is not Precision.FP32:
        return f"{precision} on {device.type}: compiled ahead of time is fp32 on a CPU"
    if not is_known_by_fingerprint(graph):
        return "it is used once"
    size = sum(weight.numel() * weight.element_size() for weight in module.parameters())
    if size > MOST_BYTES:
        return f"{size / 2**30:.1f} GiB of weights, more than {MOST_BYTES / 2**30:g} GiB"
    return "" if has_cxx() else f"no C++ compiler ({cxx()})"


def is_known_by_fingerprint(graph: Graph) -> bool:
    """Return whether what the cache holds for a graph is the graph's: a caller's own module is not seen by it."""
    return not graph.is_used_once and "module" not in getattr(graph, "__dict__", ())


def why_slower(graph: Graph, conditions: Any, eager: Callable[[], Executable], compiled: Executable) -> str:
    """Return the reason why a graph without state is not worth compiling; empty if it is.

    Both forms are timed in turn for a second, the first time: the result is kept, so that later runs do the same.

    Args:
        graph: whose usual sizes are timed.
        conditions: a JSON value of what decides their speeds, beside the graph, the processor and threads.
        eager: makes the form that is not compiled.
        compiled: the other.
    """

    def write(folder: Path) -> None:
        sizes = usual_sizes(graph.inputs)
        inputs = {spec.name: np.zeros(spec.concrete_shape(sizes), spec.dtype) for spec in graph.inputs}
        gain = _gain(*(lambda form=form: form(inputs) for form in (eager(), compiled)))
        logger.info("graph %s compiled is %.2f times as fast as eager", graph.name, gain)
        (folder / _FILE).write_text(json.dumps({"gain": gain}), encoding="utf-8")

    import numpy as np

    from mlbench.toolkit.torch_backend.ahead_of_time import cache_key

    folder = build_once("compiled_speed", [cache_key(graph), conditions], write)
    kept = read_json_object(folder / _FILE, what="kept speed")
    gain = float(kept["gain"])
    return "" if gain >= LEAST_GAIN else f"measured: {gain:.2f} of eager's speed"


def _gain(eager: Callable[[], object], compiled: Callable[[], object]) -> float:
    """Return how many times as fast the second is, as the median of rounds in which both took their turn.

    On one thread: several wait for each other where other work has a processor, which may cost either form its speed.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        eager(), compiled()  # the first calls allocate
        ratios: list[float] = []
        started_s = time.perf_counter()
        while not ratios or time.perf_counter() < started_s + _BUDGET_S:
            ratios.append(run_for(compiled, _TRY_S, owns_core=True) / run_for(eager, _TRY_S, owns_core=True))
        return median(ratios)
    finally:
        torch.set_num_threads(threads)
