"""What calls of a graph take at least, kept in the cache: counting needs torch and the module, looking up does not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.graph import Graph
from mlbench.execution.compile_cache import build_once

COUNTING = 1
"""Of the way `mlbench.roofline.operations` counts; another one begins anew."""

_FILE = "cost.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """What one call takes at least."""

    operations: int
    numbers: int
    """Floating point numbers of weights and state that are read or written, in whatever precision they are kept."""
    other_bytes: int
    """Inputs, outputs, integer weights."""

    def bytes_at(self, number_bytes: int) -> int:
        """Return how many bytes move where a number of weights or state takes so many."""
        return self.numbers * number_bytes + self.other_bytes


class NotCountedError(Exception):
    """Why a graph's operations cannot be counted."""


class _UnknownError(Exception):
    pass


def find_cost(graph: Graph, call: GraphCalls) -> CallCost | None:
    """Return what was counted for one such call before; None where nothing was.

    Raises:
        NotCountedError: it was tried, and cannot be counted.
    """

    def refuse(folder: Path) -> None:
        raise _UnknownError

    try:
        return _load_or_count(graph, call, refuse)
    except _UnknownError:
        return None


def count_cost(graph: Graph, call: GraphCalls, count: Callable[[GraphCalls], CallCost]) -> CallCost:
    """Return what one such call takes, counting it where that was not done before, and keep what came of it.

    Raises:
        NotCountedError: it cannot be counted.
    """

    def fill(folder: Path) -> None:
        try:
            found: Mapping[str, int | str] = dataclasses.asdict(count(call))
        except NotCountedError as error:
            found = {"reason": str(error)}
        (folder / _FILE).write_text(json.dumps(found), encoding="utf-8")

    return _load_or_count(graph, call, fill)


def _load_or_count(graph: Graph, call: GraphCalls, fill: Callable[[Path], None]) -> CallCost:
    shapes = {name: list(shape) for name, shape in call.shapes.items()}
    made_from = [COUNTING, _torch_version(), graph.name, graph.fingerprint, shapes, dict(call.state_sizes)]
    found = json.loads((build_once("operations", made_from, fill) / _FILE).read_text(encoding="utf-8"))
    if "reason" in found:
        raise NotCountedError(found["reason"])
    return CallCost(**found)


def _torch_version() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
