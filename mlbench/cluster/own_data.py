"""The node's side of a run whose nodes have the data themselves: an instance's code, behind a session's connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlbench.cluster.link import Link
from mlbench.contracts.engine import Engine
from mlbench.execution.instances.messages import Message
from mlbench.execution.instances.serving import Part, Served

_OF_CONTROL = ("done", "refused", "step")


class OwnDataServing:
    """An engine that answers samples by their numbers. Answers go where samples come from, all else over control."""

    def __init__(self, part: Part, engine: Engine, control: Link) -> None:
        """Store what serves."""
        self._lines = _TwoLines(control)
        self._served = Served(part, engine, self._lines)

    def take(self, link: Link, message: Message) -> None:
        """Give the engine samples, or flush it; called by the thread of the connection that samples come over."""
        self._lines.samples = link
        self._served.take(message)

    def answer(self, message: Message) -> None:
        """Do what is asked over the control connection, and send the answer, where it has one."""
        self._served.take(message)


class _TwoLines:
    """The two connections of a session, as one that answers are sent over."""

    def __init__(self, control: Link) -> None:
        self._control = control
        self.samples: Link | None = None

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; raises `OSError` when the link is closed."""
        line = self._control if kind in _OF_CONTROL or self.samples is None else self.samples
        line.send(kind, arrays, **facts)
