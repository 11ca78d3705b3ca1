"""An engine whose samples are answered by nodes: what is the same whether data travel to them or numbers alone."""

from __future__ import annotations

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from mlbench.cluster.dialing import Dialer, new_session
from mlbench.cluster.link import Link
from mlbench.cluster.remote_node import REPORTS_WITHIN_S, RemoteNode
from mlbench.cluster.session import fingerprints_of
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Samples
from mlbench.contracts.model import Model
from mlbench.contracts.statistics import EngineStatistics
from mlbench.errors import UsageError
from mlbench.execution.instances.dispatcher import Dispatcher
from mlbench.execution.instances.messages import Message
from mlbench.execution.instances.workers_engine import WorkersEngine
from mlbench.records.job_spec import JobSpec
from mlbench.records.node_record import ReachedNodeRecord

logger = logging.getLogger(__name__)

_PULSE_S = 0.5
_SILENT_IN_TEST_S = 4.0
_SILENT_S = 60.0
"""Outside tests a node may be compiling, and hold its interpreter for long."""
_NAMES_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNodes:
    """Nodes that can be connected."""

    nodes: Sequence[RemoteNode]
    dialer: Dialer
    connections: int
    """To each node, for samples."""


class NodesEngine(WorkersEngine[RemoteNode]):
    """Answers through nodes, over sockets. One that is lost fails what all of them have, and ends the test."""

    ended = "a node was lost"
    ahead = 2  # while an answer travels, the next samples are there
    here = "this client"
    """Message for a node whose files differ from this side's."""

    def __init__(self, job: JobSpec, model: Model, dataset: Dataset) -> None:
        """Store what is asked of the nodes; ``model`` and ``dataset`` are this side's own."""
        super().__init__(model, dataset, str(job.settings.get("execution.batching", "")))
        self._job = job
        self._dataset = dataset
        self._own = fingerprints_of(model, dataset)
        self.nodes = self._workers
        self._losing = threading.Lock()
        self._lost = ""
        self._on_lost: Callable[[str], None] | None = None
        self._monitor = threading.Thread(target=self._watch_nodes, name="mlbench-nodes", daemon=True)

    def _start(self) -> None:
        """Connect all nodes, and let each make its engine.

        Raises:
            UsageError: a node does not answer, refuses, or differs from the others or from this client.
        """
        session = new_session()
        found = self._find_nodes()
        self.nodes.extend(found.nodes)
        self._sharing = Dispatcher([node.consumer for node in self.nodes], self._dataset)
        for node in self.nodes:
            self._connect(node, found, session)
        self._monitor.start()
        asked = asdict(self._job) | {"network": None}
        for node, message in self._ask("start", job=asked):
            assert message  # a node that is lost raises
            self._check_fingerprints(node, message.facts["fingerprints"])
        for node in self.nodes:
            node.measure_round_trip(_NAMES_WITHIN_S)

    @abstractmethod
    def _find_nodes(self) -> FoundNodes:
        """Return the nodes, not yet connected; raises as entering does."""

    def names(self) -> Sequence[str]:
        """Ask each node for its name, over the network."""
        return [node.ask_name(_NAMES_WITHIN_S) or f"{node.address} (does not answer)" for node in self.nodes]

    def threads(self) -> list[int]:
        """Return the numbers of the threads that answers are given on; they end when the engine is left."""
        return [thread for node in self.nodes for thread in node.threads]

    @contextmanager
    def watch(self, on_lost: Callable[[str], None]) -> Iterator[None]:
        """While a test runs, call ``on_lost`` with the reason when it cannot go on, within seconds."""
        self._on_lost = on_lost
        if self._lost:
            on_lost(self._lost)
        try:
            yield
        finally:
            self._on_lost = None

    def statistics(self) -> EngineStatistics:
        """Return the counts of all nodes added up, and those of each; none of lost ones."""
        for node in self.nodes:
            node.look_at_traffic()
        return super().statistics()

    def reached_nodes(self) -> list[ReachedNodeRecord]:
        """Return each node, with what went to it before the last look at the statistics."""
        return [
            ReachedNodeRecord(
                address=str(node.address),
                round_trip_ns=node.round_trip_ns,
                node=node.facts,
                ended=node.ended,
                device=node.runtime.device if node.runtime else None,
                **asdict(node.traffic),
            )
            for node in self.nodes
        ]

    def _connect(self, node: RemoteNode, found: FoundNodes, session: str) -> None:
        def take(link: Link, message: Message) -> None:
            self._take(node, message)

        def note_end(link: Link, reason: str) -> None:
            self._lose(node, reason)
            self._is_leaving.wait()  # this thread may have reported to LoadGen: a test that runs would end the process

        node.connect(found.dialer, session, found.connections, take, note_end)

    def _check_fingerprints(self, node: RemoteNode, theirs: Mapping[str, str]) -> None:
        for what, ours in self._own.items():
            if theirs.get(what) != ours:
                name = {"data": "the data", "weights": "the weights"}.get(what, what)
                raise UsageError(
                    f"{node.name} does not have {name} of {self.here}: {theirs.get(what, 'none')}, and {ours} here.",
                    hint="Give all the same files; `mlbench verify` and the fingerprints of a record tell which.",
                )

    def _ask_about(self, what: str) -> list[Any]:
        """Return what each node reports; one that does not is lost."""
        reports = super()._ask_about(what)
        for node, report in zip(self.nodes, reports, strict=True):
            if report is None:
                self._lose(node, f"did not report its {what} within {REPORTS_WITHIN_S:g} s")
        return reports

    def _needed(self) -> list[RemoteNode]:
        return self.nodes  # without one of them there is no run

    def _take_other(self, worker: RemoteNode, message: Message) -> None:
        if message.kind == "named":
            worker.take_name(message)
        elif message.kind != "pong":
            super()._take_other(worker, message)

    def _with_worker(self, worker: RemoteNode, serials: Sequence[int], indices: Sequence[int]) -> Samples | None:
        """Return samples that a node has; None if it does not have all of them, which its answer will show."""
        samples = self._shared().with_consumer(worker.consumer, serials)
        return samples if len(samples) == len(serials) else None

    def _take_back(
        self, worker: RemoteNode, test: int, serials: Sequence[int], indices: Sequence[int]
    ) -> Samples | None:
        """Remove samples that a node has answered; None, and the test is no more valid, where it did not have one."""
        samples = self._shared().take_back(worker.consumer, serials)
        worker.note_answered(len(samples))
        if len(samples) == len(serials):
            return samples
        if not self._lost:  # otherwise its samples were failed when another node was lost
            reply = self._shared().reply(test)
            reply.invalidate(f"{worker.name} answered a sample twice, or one that it did not have")
            reply.fail(samples, "answered together with a sample that its node did not have")
        return None

    def _lose(self, node: RemoteNode, reason: str) -> None:
        """End what runs: a run that has lost a node is not valid, whatever the others answer."""
        with self._losing:
            if self._is_leaving.is_set() or node.ended:
                return
            node.ended = f"{node.name} {reason}"
        self._end_test(node.ended)
        node.take_answer(None)

    def _lose_all(self, reason: str) -> None:
        """End what runs since the nodes are not watched any more."""
        with self._losing:
            if self._is_leaving.is_set():
                return
            for node in self.nodes:
                node.ended = node.ended or reason
        self._end_test(reason)
        for node in self.nodes:
            node.take_answer(None)

    def _end_test(self, reason: str) -> None:
        logger.error("%s", reason)
        self._lost = self._lost or reason
        if self._sharing:
            for each in self.nodes:
                self._sharing.lose(each.consumer, self._lost)
        if on_lost := self._on_lost:
            on_lost(self._lost)

    def _watch_nodes(self) -> None:
        """Notice nodes that are silent: one that is stopped, or behind a network that is gone, closes nothing."""
        looked_s = time.monotonic()
        while not self._is_leaving.wait(_PULSE_S):
            now_s = time.monotonic()
            is_late, looked_s = now_s - looked_s > 2 * _PULSE_S, now_s
            limit_s = _SILENT_IN_TEST_S if self._on_lost else _SILENT_S
            for node in self.nodes:
                if node.ended:
                    continue
                node.send("ping")
                silent_s = now_s - node.last_message_s
                if silent_s > limit_s and not is_late:  # if this thread was late, so may be the one that listens
                    self._lose(node, f"did not answer for {silent_s:.0f} s")

    def _leave(self, patience_s: float) -> None:
        self._is_leaving.set()
        if self._monitor.is_alive():
            self._monitor.join()
        for node in self.nodes:
            node.close(0.0 if node.ended else min(patience_s, _PULSE_S))
