"""The node's side of a run whose nodes have the data themselves: an instance's code, behind a session's connections.

A node may have several instances itself (`EnginePlan.instances`): numbers of samples then go one step further.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlbench.cluster.link import Link
from mlbench.contracts.engine import Engine
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.execution.instances.engine import ReplicatedEngine
from mlbench.execution.instances.messages import Message
from mlbench.execution.instances.serving import Part, Served, variations_of

_OF_CONTROL = ("done", "refused", "step")


class OwnDataServing:
    """An engine that answers samples by their numbers. Answers go where samples come from, all else over control."""

    def __init__(self, part: Part, engine: Engine, control: Link) -> None:
        """Store what serves."""
        self._lines = _TwoLines(control)
        kind = _ServedInstances if isinstance(engine, ReplicatedEngine) else Served
        self._served = kind(part, engine, self._lines)

    def take(self, link: Link, message: Message) -> None:
        """Give the engine samples, or flush it; called by the thread of the connection that samples come over."""
        self._lines.samples = link
        self._served.take(message)

    def answer(self, message: Message) -> None:
        """Do what is asked over the control connection, and send the answer, where it has one."""
        self._served.take(message)


class _ServedInstances(Served):
    """The instances of a node, as one engine: samples are with them, not in this process."""

    _engine: ReplicatedEngine

    def _length(self, index: int) -> int:
        return self._engine.length_of(index)

    def _vary(self, message: Message) -> None:
        self._engine.vary(variations_of(message))
        self._line.send("done")

    def _observe(self) -> RuntimeFacts:
        return self._engine.runtime()


class _TwoLines:
    """The two connections of a session, as one that answers are sent over."""

    def __init__(self, control: Link) -> None:
        self._control = control
        self.samples: Link | None = None

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; raises `OSError` when the link is closed."""
        line = self._control if kind in _OF_CONTROL or self.samples is None else self.samples
        line.send(kind, arrays, **facts)
