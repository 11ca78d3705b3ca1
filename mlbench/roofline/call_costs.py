"""The minimum work of graph calls, cached: counting needs torch and the module, looking up does not."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.graph import Graph
from mlbench.execution.export.compile_cache import build_once
from mlbench.execution.export.tracing import tracing_versions

COUNTING = 1
"""Version of the counting in `mlbench.roofline.operations`; counts of another version are discarded."""

_FILE = "cost.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """The minimum work of one call."""

    operations: int
    numbers: int
    """Floating point numbers of weights and state that are read or written, in whatever precision they are kept."""
    other_bytes: int
    """Inputs, outputs, integer weights."""

    def bytes_at(self, number_bytes: int) -> int:
        """Return the bytes moved, for a given size of weights and state."""
        return self.numbers * number_bytes + self.other_bytes


class NotCountedError(Exception):
    """A graph's operations cannot be counted; has the reason."""


class _UnknownError(Exception):
    pass


def find_cost(graph: Graph, call: GraphCalls) -> CallCost | None:
    """Return the cached work of a call; None if it was not counted before.

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
    """Return the work of a call, counting and caching it if needed.

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
    made_from = [COUNTING, tracing_versions(graph), graph.name, graph.fingerprint, shapes, dict(call.state_sizes)]
    found = json.loads((build_once("operations", made_from, fill) / _FILE).read_text(encoding="utf-8"))
    if "reason" in found:
        raise NotCountedError(found["reason"])
    return CallCost(**found)
