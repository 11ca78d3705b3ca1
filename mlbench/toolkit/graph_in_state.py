"""Graphs of a batch program that share a state: what one leaves there need not travel to the next."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mlbench.contracts.generation import SLOTS
from mlbench.contracts.graph import Graph, StatefulExecutable, TensorSpec
from mlbench.contracts.precision import Precision
from mlbench.toolkit.module_graph import ModuleGraph

if TYPE_CHECKING:
    import numpy as np
    import torch


class GraphInState(ModuleGraph):
    """A graph that reads and writes a state, around another graph's network or with arithmetic alone."""

    state_keeps_types = True

    def __init__(  # noqa: PLR0913 - as ModuleGraph
        self,
        name: str,
        whole: Graph | None,
        *,
        inputs: tuple[TensorSpec, ...],
        outputs: tuple[TensorSpec, ...],
        state: tuple[TensorSpec, ...],
        build: Callable[[], torch.nn.Module],
        fingerprint: str,
        calibrate: Callable[[], Iterator[Mapping[str, np.ndarray]]] | None = None,
    ) -> None:
        """Store the graph of the network, if there is one, and what `ModuleGraph` takes."""
        super().__init__(
            name, inputs=inputs, outputs=outputs, state=state, build=build, fingerprint=fingerprint, calibrate=calibrate
        )
        self._whole = whole

    def precision(self, asked: Precision) -> Precision:
        """Return the network's precision; arithmetic alone is fp32."""
        return self._whole.precision(asked) if self._whole else Precision.FP32


class KeptStates:
    """The state that a program keeps for each executable, with as many slots as were ever asked for."""

    def __init__(self) -> None:
        self._held: WeakKeyDictionary[StatefulExecutable, tuple[int, object]] = WeakKeyDictionary()

    def state_with(
        self, slots: int, executable: StatefulExecutable, begin: Callable[[object], None] | None = None
    ) -> object:
        """Return a state with at least so many slots; ``begin`` writes to a new one, which is zeros."""
        room, state = self._held.pop(executable, (0, None))
        if room < slots:
            state = None  # its memory is free before more is taken
            room, state = slots, executable.new_state({SLOTS: slots})
            if begin:
                begin(state)
        self._held[executable] = room, state
        return state
