"""The client's side of a node: its connections, what it was given, and how it was lost."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlbench.cluster.addresses import Address
from mlbench.cluster.dialing import Dialer, next_of, open_link
from mlbench.cluster.link import Link, OnEnd, OnMessage
from mlbench.cluster.sample_form import Form, samples_to_wire
from mlbench.contracts.engine import Samples
from mlbench.errors import MlbenchError, UsageError
from mlbench.execution.instances.messages import Message, numbers
from mlbench.execution.instances.worker import Worker
from mlbench.execution.processes.failures import ProcessEndedError
from mlbench.records.node_record import NodeRecord

_ROUND_TRIPS = 5
REPORTS_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTraffic:
    """Traffic with a node since the last statistics."""

    samples: int = 0
    """Answered."""
    elapsed_ns: int = 0
    occupied_ns: int = 0
    """While it had a sample at least."""
    in_flight_ns: int = 0
    """Time from sending to the answer, summed over samples."""


class _Occupancy:
    """Integrates how many samples a node has over time. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = self._samples = self._occupied_ns = self._in_flight_ns = 0
        self._last_ns = self._began_ns = time.perf_counter_ns()

    def change(self, by: int) -> None:
        """Note that so many samples were sent, or, negative, answered."""
        with self._lock:
            self._advance()
            self._open += by
            self._samples -= min(by, 0)

    def take(self) -> NodeTraffic:
        """Return the sums, and begin anew."""
        with self._lock:
            self._advance()
            found = NodeTraffic(
                samples=self._samples,
                elapsed_ns=self._last_ns - self._began_ns,
                occupied_ns=self._occupied_ns,
                in_flight_ns=self._in_flight_ns,
            )
            self._samples = self._occupied_ns = self._in_flight_ns = 0
            self._began_ns = self._last_ns
        return found

    def _advance(self) -> None:
        now_ns = time.perf_counter_ns()
        passed_ns = now_ns - self._last_ns
        self._last_ns = now_ns
        if self._open:
            self._occupied_ns += passed_ns
            self._in_flight_ns += passed_ns * self._open


class RemoteNode(Worker):
    """A node as its client has it. Answers are handled by the threads of its links, through ``on_message``."""

    def __init__(self, address: Address, facts: NodeRecord) -> None:
        """Store who it is; nothing is connected."""
        super().__init__(f"node {facts.name} ({address})")
        self.address = address
        self.facts = facts
        self.round_trip_ns = 0
        self.traffic = NodeTraffic()
        """Traffic before the last statistics."""
        self._names: queue.Queue[Message | None] = queue.Queue()
        self._control: Link | None = None
        self._samples: list[Link] = []
        self._next = 0
        self._occupancy = _Occupancy()

    @property
    def last_message_s(self) -> float:
        """Time of its last message on the control connection, by the monotonic clock."""
        assert self._control
        return self._control.last_message_s

    def connect(self, dialer: Dialer, session: str, connections: int, on_message: OnMessage, on_end: OnEnd) -> None:
        """Open a session, with so many connections for samples.

        Raises:
            UsageError: it does not answer, or serves another run.
        """
        self._control = open_link(dialer.dial(self.address), "control", session, on_message, on_end)
        self.wait_for_answer()
        for _ in range(connections):
            self._samples.append(open_link(dialer.dial(self.address), "samples", session, on_message, on_end))
            try:
                self.wait_for_answer()
            except ProcessEndedError as error:
                raise UsageError(f"{error}.", hint="Look at its log.") from None

    @property
    def threads(self) -> list[int]:
        """Return the numbers of the threads that its answers are handled on."""
        return [link.thread for link in self._samples]

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message over the control connection; if the node is gone, its links notice."""
        assert self._control
        _send(self._control, kind, arrays, **facts)

    def flush(self) -> None:
        """Flush its engine, behind the samples of each connection."""
        for link in self._samples:
            _send(link, "flush")

    def take_answer(self, message: Message | None) -> None:
        """Hand an answer to the thread that asked; None: there will be no more, and no name either."""
        super().take_answer(message)
        if message is None:
            self._names.put(None)

    def take_name(self, message: Message) -> None:
        """Hand a name to the thread that asked for it."""
        self._names.put(message)

    def wait_for_answer(self) -> Message:
        """Wait for the answer to a request; the engine ends the wait for a node that is silent.

        Raises:
            MlbenchError: it refuses, and a user can act on that.
            ProcessEndedError: it refuses for another reason, or was lost.
        """
        message = None if self.ended else super().wait_for_answer()
        if message is None:
            raise self.error()
        self.check(message)
        return message

    def check(self, message: Message) -> None:
        """Raise if an answer is a refusal, and say whose, as a `Worker` does."""
        try:
            super().check(message)
        except MlbenchError as error:
            raise type(error)(f"{self.name}: {error.message}", hint=error.hint) from None

    def wait_for_report(self) -> Message | None:
        """Wait for the answer to a question; None where it refuses, was lost, or takes long."""
        message = next_of(self._answers, REPORTS_WITHIN_S)
        return message if message and message.kind == "done" else None

    def ask_name(self, timeout_s: float) -> str:
        """Return the name that it says now, over the network; empty where it does not answer."""
        began_ns = time.perf_counter_ns()
        self.send("name")
        message = None if self.ended else next_of(self._names, timeout_s)
        if message is None:
            return ""
        passed_ns = time.perf_counter_ns() - began_ns
        self.round_trip_ns = min(self.round_trip_ns or passed_ns, passed_ns)
        return str(message.facts.get("name", ""))

    def measure_round_trip(self, timeout_s: float) -> None:
        """Time a few questions, while nothing else is on the way."""
        for _ in range(_ROUND_TRIPS):
            self.ask_name(timeout_s)

    def note_answered(self, count: int) -> None:
        """Note that so many samples were answered."""
        self._occupancy.change(-count)

    def look_at_traffic(self) -> None:
        """Keep in `traffic` what went to it and came back since the last look."""
        self.traffic = self._occupancy.take()

    def close(self, patience_s: float) -> None:
        """Close its connections."""
        for link in [*self._samples, *([self._control] if self._control else [])]:
            link.close(patience_s)

    def _give(self, samples: Samples, test: int, is_flushed: bool) -> None:
        """Send samples over the connection whose turn it is, in one message, which contains only this query."""
        self._occupancy.change(len(samples))
        form, arrays = self._content(samples)
        keys = numbers(samples.ids), numbers(samples.indices)
        link = self._samples[self._next % len(self._samples)]
        self._next += 1
        _send(link, "samples", [*keys, *arrays], test=test, is_flushed=is_flushed, **form)

    def _content(self, samples: Samples) -> tuple[Mapping[str, Form], Sequence[np.ndarray]]:
        """Return what travels besides the numbers of samples: their form, and their arrays."""
        return samples_to_wire(samples.data())


def _send(link: Link, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
    try:
        link.send(kind, arrays, **facts)
    except OSError:
        pass  # the link's thread says so too
