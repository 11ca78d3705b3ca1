"""Counts graph calls by shapes: the basis of a run's work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.graph import Array, Executable, StatefulExecutable
from mlbench.execution.arrays import check_outputs
from mlbench.execution.replay import ReplayedExecutable

if TYPE_CHECKING:
    import numpy as np

_Shapes = tuple[tuple[str, tuple[int, ...]], ...]
_Sizes = tuple[tuple[str, int], ...]


class CallCounts:
    """Counts the calls of one graph by shapes. One thread counts, another may read."""

    def __init__(self, graph: str) -> None:
        """Store the graph's name in the model."""
        self.graph = graph
        self._counts: dict[tuple[_Shapes, _Sizes], int] = {}

    def note(self, inputs: Mapping[str, np.ndarray], state_sizes: _Sizes = ()) -> None:
        """Count a call; it takes about a microsecond."""
        counts, key = self._counts, (tuple([(name, array.shape) for name, array in inputs.items()]), state_sizes)
        counts[key] = counts.get(key, 0) + 1

    def take(self) -> Mapping[tuple[_Shapes, _Sizes], int]:
        """Return the counts, and reset them."""
        counts, self._counts = self._counts, {}
        return counts


class CountedExecutable:
    """An executable whose calls are counted once they have succeeded."""

    def __init__(self, executable: Executable | StatefulExecutable, graph: str) -> None:
        """Wrap what a backend compiled from the graph of this name."""
        self._executable: Any = executable
        self.counts = CallCounts(graph)

    def replay(self) -> ReplayedExecutable:
        """From now on compute each shape only once; return a counter of the calls that are still computed."""
        if not isinstance(self._executable, ReplayedExecutable):
            self._executable = ReplayedExecutable(self._executable)
        return self._executable

    def new_state(self, sizes: Mapping[str, int], /) -> object:
        """Return state of a graph that has any, with its sizes."""
        return _SizedState(self._executable.new_state(sizes), tuple(sizes.items()))

    def __call__(self, inputs: Mapping[str, np.ndarray], state: _SizedState | None = None, /) -> Mapping[str, Array]:
        """Compute all outputs by name."""
        outputs: Mapping[str, Array] = self._executable(inputs, state.held) if state else self._executable(inputs)
        check_outputs(outputs, self.counts.graph)
        self.counts.note(inputs, state.sizes if state else ())
        return outputs


@dataclass(frozen=True, slots=True)
class _SizedState:
    """State of a backend's, and the sizes that it was made with."""

    held: object
    sizes: _Sizes


def merge_counts(counts: Iterable[CallCounts]) -> Sequence[GraphCalls]:
    """Return the merged counts of several workers, the most frequent calls first."""
    return sum_counts(((each.graph, *key), count) for each in counts for key, count in each.take().items())


def sum_counts(counts: Iterable[tuple[tuple[str, _Shapes, _Sizes], int]]) -> Sequence[GraphCalls]:
    """Return counts of graph, shapes and sizes of the state with equal ones as one, the most frequent first."""
    total: Counter[tuple[str, _Shapes, _Sizes]] = Counter()
    for key, count in counts:
        total[key] += count
    return [
        GraphCalls(graph=graph, shapes=dict(shapes), state_sizes=dict(sizes), count=count)
        for (graph, shapes, sizes), count in total.most_common()
    ]
