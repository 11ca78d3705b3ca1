"""The run's side of the nodes that Ray has placed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from mlbench.errors import UsageError
from mlbench.execution.instances.messages import Line
from mlbench.execution.instances.refusals import refusal_in
from mlbench.execution.processes.side_process import SideProcess
from mlbench.system.guards import undo_on_error

_ENDS_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A request to Ray for nodes."""

    count: int
    cluster: str
    job: Mapping[str, Any]
    """The fields of a `JobSpec`."""
    builder: str
    """A function of a job, ``module:function``, that returns a `Part`."""
    describer: str
    """A function of a job and a name, ``module:function``, that returns a `NodeRecord`."""


class PlacedNodes:
    """Nodes that Ray has placed and watches, through a process of its own."""

    def __init__(self, placement: Placement, on_lost: Callable[[int | None, str], None]) -> None:
        """Have nodes placed; wait until each can be connected.

        Args:
            placement: how many, where, and what they serve.
            on_lost: called with the number of a node that Ray has lost, or None where Ray itself is, and a predicate.

        Raises:
            MlbenchError: there is no such cluster, it has too few nodes, or one cannot serve.
        """
        self._where = placement.cluster
        self._on_lost = on_lost
        self._is_leaving = False
        self._process = SideProcess("mlbench.cluster.ray_process")
        self._line = Line(self._process.line)
        self._thread = threading.Thread(target=self._listen, name="mlbench-ray", daemon=True)
        with undo_on_error(self.close):
            self._place(placement)
        self._thread.start()

    def _place(self, placement: Placement) -> None:
        self._line.send("place", **asdict(placement))
        message = self._line.receive()
        if message is None:
            raise UsageError(
                f"no Ray cluster can be used at {self._where}: Ray ended the process that asked for it.",
                hint="Set execution.cluster to HOST:PORT of its head; the run's log has Ray's messages.",
            )
        if error := refusal_in(message):
            raise error
        self.addresses: list[str] = message.facts["addresses"]
        self.token = bytes.fromhex(message.facts["token"])
        self.ray_version: str = message.facts["ray"]

    def close(self) -> None:
        """Give the nodes back."""
        self._is_leaving = True
        self._process.hang_up()
        self._process.wait(_ENDS_WITHIN_S)
        if self._thread.is_alive():
            self._thread.join()
        self._process.line.close()

    def _listen(self) -> None:
        while message := self._line.receive():
            self._on_lost(message.facts["number"], f"was lost, says Ray: {message.facts['reason']}")
        if not self._is_leaving:
            self._on_lost(None, f"the Ray cluster ({self._where}) is gone: its head does not answer")
