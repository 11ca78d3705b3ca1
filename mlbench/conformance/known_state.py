"""Small graphs that share a state, and a trial of them: each call is made to the backend and to the torch modules.

Two of them take what the graphs of a language model take (see `mlbench.contracts.generation`); all return scores, which
can be compared at any precision. What a slot was given decides them: were it forgotten, or another's, they would differ
by more than the coarsest precision allows (a test holds this).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mlbench.conformance.comparison import demand_close
from mlbench.conformance.subject import Subject, demand
from mlbench.contracts.generation import DECODE, LENGTH, PREFILL, SLOTS
from mlbench.contracts.graph import Dim, Graph, StatefulExecutable, TensorSpec
from mlbench.execution.generation.host_state import stateful
from mlbench.toolkit import ModuleGraph, build_seeded, file_sha256, host_array, pad_rows

if TYPE_CHECKING:
    import torch

Scope = Literal["state", "rows", "nothing"]

SCALING: Mapping[str, Scope] = {"scaling": "state", "scaling_rows": "rows", "looking": "nothing"}
"""Further graphs of the same state, and the part of it that each makes anew by arithmetic."""

WRITERS = (PREFILL, DECODE, *SCALING)

VOCABULARY = 64
MOST_SLOTS = 8
MOST_ROWS = 33
"""What the graphs are prepared for: more than fill any usual tile."""

LONGEST = 32

_CLASSES = 10
_HEADS = 2
_HEAD_SIZE = 8
_SEED = 4


def reading_graph() -> ModuleGraph:
    """Return the graph that reads pieces of token lists into slots."""
    rows, tokens = _dim("rows", MOST_ROWS), _dim("tokens", LONGEST)
    return _graph(
        PREFILL,
        TensorSpec(name="input_ids", shape=(rows, tokens), dtype="int64"),
        *(TensorSpec(name=name, shape=(rows,), dtype="int64") for name in ("positions", "slots", "last")),
    )


def stepping_graph() -> ModuleGraph:
    """Return the graph that takes one token for each of the first slots."""
    rows = _dim("rows", MOST_ROWS)
    return _graph(DECODE, *(TensorSpec(name=name, shape=(rows,), dtype="int64") for name in ("input_ids", "positions")))


def scaling_graph(name: str) -> ModuleGraph:
    """Return a graph of `SCALING`: it makes its part of the state anew, and passes the rest through."""
    return _graph(name, TensorSpec(name="positions", shape=(_dim("rows", MOST_ROWS),), dtype="int64"))


def summing_graph() -> ModuleGraph:
    """Return a graph that adds integers to the first slots of a state that keeps its type, and returns the sums."""
    rows = _dim("rows", MOST_SLOTS)
    graph = ModuleGraph(
        "summing",
        inputs=(TensorSpec(name="addends", shape=(rows,), dtype="int64"),),
        outputs=(TensorSpec(name="sums", shape=(rows,), dtype="float32"),),
        state=(TensorSpec(name="totals", shape=(_dim(SLOTS, MOST_SLOTS),), dtype="float32"),),
        build=_build_summing,
        fingerprint=file_sha256(Path(__file__).with_name("networks.py")),
    )
    graph.state_keeps_types = True
    return graph


def token_list(length: int, *, seed: int) -> list[int]:
    """Return a list of tokens; the same for the same seed."""
    tokens: list[int] = np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()
    return tokens


class Trial:
    """A state of the backend's and one of torch's, on which the same calls are made; their outputs must be equal."""

    def __init__(self, subject: Subject, *, slots: int = 4, length: int = 16) -> None:
        """Make states of this size; a graph is compiled when it is first called."""
        graphs = (reading_graph(), stepping_graph(), *map(scaling_graph, SCALING))
        self._subject = subject
        self._graphs: Mapping[str, Graph] = {graph.name: graph for graph in graphs}
        self._executables: dict[str, StatefulExecutable] = {}
        self._given: list[tuple[np.ndarray, np.ndarray]] = []
        self.start(slots=slots, length=length)

    def start(self, *, slots: int, length: int, graph: str = PREFILL) -> None:
        """Go on with new states; the executable of this graph makes the backend's."""
        self.state = self._executable(graph).new_state({SLOTS: slots, LENGTH: length})
        self._expected = [_zeros(spec, slots, length) for spec in self._graphs[graph].state]

    def swap(self, other: tuple[Any, list[torch.Tensor]] | None = None) -> tuple[Any, list[torch.Tensor]]:
        """Return both states, and go on with others."""
        states = self.state, self._expected
        if other:
            self.state, self._expected = other
        return states

    def read(
        self, pieces: Sequence[Sequence[int]], slots: Sequence[int], where: str, positions: Sequence[int] = ()
    ) -> None:
        """Read pieces into slots, from these positions on, or from the beginning."""
        first = np.array(positions or [0] * len(pieces))
        longest = max(map(len, pieces))
        inputs = {
            "input_ids": pad_rows([np.array(piece) for piece in pieces], length=longest, value=VOCABULARY - 1),
            "positions": first,
            "slots": np.array(slots),
            "last": np.array([len(piece) - 1 for piece in pieces]),
            "columns": np.arange(first.max() + longest),
        }
        self._call(PREFILL, inputs, where)

    def step(self, tokens: Sequence[int], positions: Sequence[int], where: str, *, span: int = 0) -> None:
        """Give a token to each of the first slots, at these positions."""
        columns = np.arange(max(span, max(positions) + 1))
        inputs = {"input_ids": np.array(tokens), "positions": np.array(positions), "columns": columns}
        self._call(DECODE, inputs, where)

    def write(self, name: str, ends: list[int], rows: int, where: str) -> None:
        """Call any graph on so many of the slots: a token goes behind the end of each, if the graph takes one.

        Args:
            name: of the graph.
            ends: one of each slot; those that get a token move on.
            rows: how many, counted from the last slot where the graph reads into slots that are named.
            where: for the message.
        """
        slots = [*reversed(range(len(ends)))][:rows] if name == PREFILL else range(rows)
        taken = name not in SCALING
        positions = np.array([ends[slot] - (not taken) for slot in slots])
        tokens = 7 * positions % VOCABULARY
        inputs = {
            "input_ids": tokens[:, None] if name == PREFILL else tokens,
            "positions": positions,
            "slots": np.array(slots),
            "last": np.zeros_like(positions),
            "columns": np.arange(max(ends) + 1),
        }
        self._call(name, {spec.name: inputs[spec.name] for spec in self._graphs[name].inputs}, where)
        for slot in slots if taken else ():
            ends[slot] += 1

    def grow(self, *, slots: int, length: int, graph: str = DECODE) -> None:
        """Go on with larger states that begin with the contents of these."""
        self.state = self._executable(graph).resize(self.state, {SLOTS: slots, LENGTH: length})
        grown = [_zeros(spec, slots, length) for spec in self._graphs[graph].state]
        for new, old in zip(grown, self._expected, strict=True):
            new[: old.shape[0], :, : old.shape[2]] = old
        self._expected = grown

    def copy(self, sources: Sequence[int], targets: Sequence[int], columns: range, graph: str = DECODE) -> None:
        """Copy rows, of which only these columns matter."""
        self._executable(graph).copy_rows(self.state, sources, targets, columns)
        for tensor in self._expected:
            tensor[list(targets)] = tensor[list(sources)]

    def demand_outputs_kept(self) -> None:
        """Raise `ConformanceError` when the outputs of an earlier call are not what they were."""
        demand(
            all(np.array_equal(held, before) for held, before in self._given),
            "output 'scores' of an earlier call changed in a later one.",
            "Copy outputs out of buffers that are used again.",
        )

    def _executable(self, name: str) -> StatefulExecutable:
        if name not in self._executables:
            graph = self._graphs[name]
            self._executables[name] = stateful(self._subject.compile(graph), graph)
        return self._executables[name]

    def _call(self, name: str, inputs: Mapping[str, np.ndarray], where: str) -> None:
        before = {key: array.copy() for key, array in inputs.items()}
        found = host_array(self._executable(name)(inputs, self.state)["scores"])
        changed = [key for key, array in inputs.items() if not np.array_equal(array, before[key])]
        demand(not changed, f"graph {name}: {changed} changed by the call.", "Work on a copy of the inputs.")
        self._given.append((found, found.copy()))
        expected = {"scores": _compute_scores(name, inputs, self._expected)}
        demand_close(self._subject, self._graphs[name], {"scores": found}, expected, where)


def _dim(name: str, largest: int) -> Dim:
    return Dim(name=name, smallest=1, usual=max(1, largest // 2), largest=largest)


def _graph(name: str, *inputs: TensorSpec) -> ModuleGraph:
    rows = inputs[0].shape[0]
    shape = (_dim(SLOTS, MOST_ROWS), _HEADS, _dim(LENGTH, LONGEST), _HEAD_SIZE)
    return ModuleGraph(
        name,
        inputs=(*inputs, TensorSpec(name="columns", shape=(_dim("span", LONGEST),), dtype="int64")),
        outputs=(TensorSpec(name="scores", shape=(rows, _CLASSES), dtype="float32"),),
        state=tuple(TensorSpec(name=part, shape=shape, dtype="float32") for part in ("keys", "values")),
        build=lambda: _build(name),
        fingerprint="-".join(file_sha256(Path(__file__).with_name(file)) for file in ("networks.py", "known_state.py")),
    )


def _build(name: str) -> torch.nn.Module:
    from mlbench.conformance.networks import ReadingNetwork, ScalingNetwork, SteppingNetwork

    if name in SCALING:
        return ScalingNetwork(SCALING[name], _CLASSES)
    kind = ReadingNetwork if name == PREFILL else SteppingNetwork
    return build_seeded(lambda: kind(VOCABULARY, _CLASSES, LONGEST, _HEADS, _HEAD_SIZE), seed=_SEED)


def _build_summing() -> torch.nn.Module:
    from mlbench.conformance.networks import SummingNetwork

    return SummingNetwork()


@cache
def _module_of(name: str) -> torch.nn.Module:
    return _build(name)


def _compute_scores(name: str, inputs: Mapping[str, np.ndarray], state: Sequence[torch.Tensor]) -> np.ndarray:
    """Return the torch module's scores; it updates the state."""
    import torch

    with torch.inference_mode():
        scores, *_ = _module_of(name)(*(torch.tensor(array) for array in inputs.values()), *state)
    found: np.ndarray = scores.numpy()
    return found


def _zeros(spec: TensorSpec, slots: int, length: int) -> torch.Tensor:
    import torch

    return torch.zeros(spec.concrete_shape({SLOTS: slots, LENGTH: length}))
