"""The two compiled graphs and the key-value cache they share. Every call of the backend is made here."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mlbench.contracts.backend import GraphBackend
from mlbench.contracts.generation import DECODE, LENGTH, PREFILL, SLOTS, Decoding
from mlbench.contracts.graph import Dim, Graph, StatefulExecutable
from mlbench.contracts.model import Model
from mlbench.contracts.precision import Precision
from mlbench.errors import describe_error
from mlbench.execution.arrays import host_array
from mlbench.execution.call_counts import CallCounts
from mlbench.execution.generation.host_state import stateful
from mlbench.execution.replay import ReplayedGeneration

logger = logging.getLogger(__name__)

LENGTH_STEP = 128
"""The cache grows in steps of this many columns."""

SPAN_STEP = 32
"""A call attends to a multiple of this many columns."""


@dataclass(frozen=True, slots=True)
class Choices:
    """What a call returned, best first: tokens (rows, choices) int64, log-probabilities (rows, choices) float32."""

    tokens: np.ndarray
    log_probabilities: np.ndarray
    lasted_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheLimits:
    """The largest sizes that the graphs take."""

    rows: int
    """Rows of the cache, and of a decode call."""
    pieces: int
    """Rows of a prefill call."""
    piece_tokens: int
    columns: int
    """Columns of the cache, and of what a call attends to."""

    @classmethod
    def of(cls, graphs: Mapping[str, Graph]) -> CacheLimits:
        """Read the largest sizes of the graphs' dimensions."""
        prefill, decode = graphs[PREFILL], graphs[DECODE]
        return cls(
            rows=min(_largest(decode, "input_ids", 0), *(_largest(prefill, spec.name, 0) for spec in prefill.state)),
            pieces=_largest(prefill, "input_ids", 0),
            piece_tokens=_largest(prefill, "input_ids", 1),
            columns=min(_columns(graphs), default=sys.maxsize),
        )


class Cache:
    """Reads prompts into rows of the cache, and decodes rows; grows when asked."""

    def __init__(self, backend: GraphBackend, model: Model, precision: Precision, longest: int) -> None:
        """Compile both graphs; memory is taken when it is first asked for."""
        self._prefill = _compile(backend, model.graphs[PREFILL], precision)
        self._decode = _compile(backend, model.graphs[DECODE], precision)
        self.limits = CacheLimits.of(model.graphs)
        self.counts = {name: CallCounts(name) for name in (PREFILL, DECODE)}
        self.replayed: list[ReplayedGeneration] = []
        """Both graphs in replay mode; see `replay`."""
        self.longest = min(longest, self.limits.columns)
        """Tokens of a sequence: as many as the model has positions for, or as the graphs take."""
        self._columns = np.arange(self.longest)
        self._state: object = None
        self.rows = 0
        self.length = 0
        self.growths = 0

    def reserve(self, rows: int, length: int) -> str:
        """Make sure that there are this many rows and columns. Returns why not, with everything unchanged."""
        if rows <= self.rows and length <= self.length:
            return ""
        rows, length = max(rows, self.rows), max(self.length, min(_round_up(length, LENGTH_STEP), self.longest))
        sizes = {SLOTS: rows, LENGTH: length}
        try:
            if self._state is None:
                self._state = self._prefill.new_state(sizes)
            else:
                self._state = self._prefill.resize(self._state, sizes)
        except Exception as error:  # a runtime has its own out-of-memory errors
            logger.warning("no cache of %d rows and %d columns: %s", rows, length, describe_error(error))
            return f"out of memory for a cache of {rows} rows and {length} columns: {describe_error(error)}"
        self.rows, self.length = rows, length
        self.growths += 1
        return ""

    def drop(self) -> None:
        """Free the memory."""
        self._state, self.rows, self.length = None, 0, 0

    def replay(self, decoding: Decoding, usual_answer: float) -> None:
        """Make calls free from now on, with answers of this average length."""
        if not self.replayed:
            self._prefill, self._decode = self.replayed = [
                ReplayedGeneration(executable, decoding, usual_answer=usual_answer, ends=executable is self._decode)
                for executable in (self._prefill, self._decode)
            ]

    def prefill(self, input_ids: np.ndarray, positions: np.ndarray, rows: np.ndarray, last: np.ndarray) -> Choices:
        """Read pieces of prompts, (n, tokens), into rows of the cache that begin at these positions."""
        span = self._span(int(positions.max()) + input_ids.shape[1])
        inputs = {"input_ids": input_ids, "positions": positions, "slots": rows, "last": last, "columns": span}
        return self._call(PREFILL, inputs, len(rows))

    def decode(self, input_ids: np.ndarray, positions: np.ndarray) -> Choices:
        """Take a token for each of the first rows."""
        span = self._span(int(positions.max()) + 1)
        inputs = {"input_ids": input_ids, "positions": positions, "columns": span}
        return self._call(DECODE, inputs, len(positions))

    def copy_rows(self, sources: Sequence[int], targets: Sequence[int], columns: range) -> None:
        """Copy these columns of rows."""
        self._prefill.copy_rows(self._state, sources, targets, columns)

    def _span(self, needed: int) -> np.ndarray:
        return self._columns[: min(_round_up(needed, SPAN_STEP), self.length)]

    def _call(self, graph: str, inputs: Mapping[str, np.ndarray], rows: int) -> Choices:
        executable = self._prefill if graph == PREFILL else self._decode
        started_ns = time.perf_counter_ns()
        outputs = executable(inputs, self._state)
        self.counts[graph].note(inputs, ((SLOTS, self.rows), (LENGTH, self.length)))
        tokens, log_probabilities = host_array(outputs["tokens"]), host_array(outputs["log_probabilities"])
        if tokens.ndim != 2 or len(tokens) != rows or tokens.shape != log_probabilities.shape:
            raise ValueError(f"tokens {tokens.shape} and log_probabilities {log_probabilities.shape} for {rows} rows")
        return Choices(tokens, log_probabilities, time.perf_counter_ns() - started_ns)


def _largest(graph: Graph, name: str, axis: int) -> int:
    """Return the largest size of an axis of an input or state tensor."""
    spec = next(spec for spec in (*graph.inputs, *graph.state) if spec.name == name)
    return _size(spec.shape[axis])


def _columns(graphs: Mapping[str, Graph]) -> Iterator[int]:
    """Yield the largest lengths of the cache and of the attended columns, as far as the graphs limit them."""
    for graph in (graphs[PREFILL], graphs[DECODE]):
        yield from (_size(spec.shape[0]) for spec in graph.inputs if spec.name == "columns")
        yield from (_size(dim) for spec in graph.state for dim in spec.shape if getattr(dim, "name", "") == LENGTH)


def _size(dim: int | Dim) -> int:
    return dim.largest if isinstance(dim, Dim) else dim


def _compile(backend: GraphBackend, graph: Graph, precision: Precision) -> StatefulExecutable:
    return stateful(backend.compile(graph, precision), graph)


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step
