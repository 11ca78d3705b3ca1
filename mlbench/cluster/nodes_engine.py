"""An engine whose samples are answered by nodes: what is the same whether data travel to them or numbers alone."""

from __future__ import annotations

import logging
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Self

from mlbench.cluster.dialing import Dialer, new_session
from mlbench.cluster.link import Link
from mlbench.cluster.remote_node import RemoteNode
from mlbench.cluster.session import fingerprints_of
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics, InstanceStatistics
from mlbench.errors import UsageError
from mlbench.execution.instances.dispatcher import Dispatcher
from mlbench.execution.instances.messages import Message
from mlbench.execution.instances.statistics import add_calls, add_statistics
from mlbench.records.job_spec import JobSpec
from mlbench.records.node_record import ReachedNodeRecord
from mlbench.wire.engine_statistics import statistics_from_json
from mlbench.wire.runtime_facts import merge_runtimes, runtime_from_json

logger = logging.getLogger(__name__)

_PULSE_S = 0.5
_SILENT_IN_TEST_S = 4.0
_SILENT_S = 60.0
"""Outside tests a node may be compiling, and hold its interpreter for long."""
_NAMES_WITHIN_S = 5.0
_REPORTS_WITHIN_S = 30.0
_AHEAD = 2
"""A node is given so many times what keeps its engine busy: while an answer travels, the next samples are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNodes:
    """Nodes that can be connected."""

    nodes: Sequence[RemoteNode]
    dialer: Dialer
    connections: int
    """To each node, for samples."""


class NodesEngine(Engine):
    """Answers through nodes, each of which has an engine, over sockets."""

    here = "this client"
    """Message for a node whose files differ from this side's."""

    def __init__(self, job: JobSpec, model: Model, dataset: Dataset) -> None:
        """Store what is asked of the nodes; ``model`` and ``dataset`` are this side's own."""
        self._job = job
        self._program = model.program
        self._dataset = dataset
        self._own = fingerprints_of(model, dataset)
        self.nodes: list[RemoteNode] = []
        self._sharing: Dispatcher | None = None
        self._losing = threading.Lock()
        self._lost = ""
        self._on_lost: Callable[[str], None] | None = None
        self._is_leaving = threading.Event()
        self._monitor = threading.Thread(target=self._watch_nodes, name="mlbench-nodes", daemon=True)

    def __enter__(self) -> Self:
        """Connect all nodes, and let each make its engine.

        Raises:
            UsageError: a node does not answer, refuses, or differs from the others or from this client.
            ProcessEndedError: a node cannot make its engine, or was lost over it.
        """
        session = new_session()
        try:
            found = self._find_nodes()
            self.nodes = list(found.nodes)
            self._sharing = Dispatcher([node.consumer for node in self.nodes], self._dataset)
            for node in self.nodes:
                self._connect(node, found, session)
            self._monitor.start()
            asked = asdict(self._job) | {"network": None}
            for node, message in self._ask("start", job=asked):
                self._check_fingerprints(node, message.facts["fingerprints"])
            for node in self.nodes:
                node.measure_round_trip(_NAMES_WITHIN_S)
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections; the nodes' processes end by that."""
        self._leave()

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

    def _note_capacities(self, answers: Sequence[tuple[RemoteNode, Message]]) -> None:
        """Note what each node said of its capacity when it was warmed up."""
        for node, message in answers:
            capacity = Capacity(**message.facts)
            node.consumer.capacity = Capacity(batch=capacity.batch, in_flight=_AHEAD * capacity.in_flight)

    def capacity(self) -> Capacity:
        """Ask for as many samples as all nodes take."""
        wanted = [node.consumer.capacity for node in self.nodes]
        return Capacity(batch=max(each.batch for each in wanted), in_flight=sum(each.in_flight for each in wanted))

    def flush(self) -> None:
        """Flush partial batches on the nodes, including samples not yet sent."""
        self._shared().flush()
        for node in self.nodes:
            node.flush()

    def statistics(self) -> EngineStatistics:
        """Return the counts of all nodes added up, and those of each; none of lost ones."""
        for node in self.nodes:
            node.look_at_traffic()
        counts = [None if each is None else statistics_from_json(each) for each in self._ask_about("statistics")]
        return add_nodes(counts, [node.ended for node in self.nodes])

    def calls(self) -> Sequence[GraphCalls]:
        """Return the calls of all nodes."""
        return add_calls(GraphCalls(**call) for calls in self._ask_about("calls") for call in calls or ())

    def replay_graphs(self) -> str:
        """Make the graph calls of all nodes free."""
        reasons = self._ask_about("replay_graphs")
        return next((str(reason) for reason in reasons if reason), "a node was lost" if None in reasons else "")

    def runtime(self) -> RuntimeFacts:
        """Return the common facts of the nodes' runtimes, and the differences."""
        answers = self._ask_about("runtime")
        found = [None if each is None else runtime_from_json(each) for each in answers]
        for node, each in zip(self.nodes, found, strict=True):
            node.device = each.device if each else None
        return merge_runtimes([each for each in found if each])

    def reached_nodes(self) -> list[ReachedNodeRecord]:
        """Return each node, with what went to it before the last look at the statistics."""
        return [
            ReachedNodeRecord(
                address=str(node.address),
                round_trip_ns=node.round_trip_ns,
                node=node.facts,
                ended=node.ended,
                device=node.device,
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
                    f"{node.title} does not have {name} of {self.here}: {theirs.get(what, 'none')}, and {ours} here.",
                    hint="Give all the same files; `mlbench verify` and the fingerprints of a record tell which.",
                )

    def _ask_about(self, what: str) -> list[Any]:
        """Return the facts of each node; None if it was lost."""
        answers: list[Any] = []
        asked = [node for node in self.nodes if not node.ended]
        for node in asked:
            node.send("report", what=what)
        for node in self.nodes:
            message = node.answer_or_none(_REPORTS_WITHIN_S) if node in asked else None
            if node in asked and message is None:
                self._lose(node, f"did not report its {what} within {_REPORTS_WITHIN_S:g} s")
            answers.append(message.facts["answer"] if message else None)
        return answers

    def _ask(self, kind: str, arrays: Sequence[Any] = (), **facts: Any) -> list[tuple[RemoteNode, Message]]:
        """Ask all nodes at the same time, and return their answers; raises as `RemoteNode.answered`."""
        for node in self.nodes:
            node.send(kind, arrays, **facts)
        return [(node, node.answered()) for node in self.nodes]

    def _shared(self) -> Dispatcher:
        if self._sharing is None:
            raise RuntimeError("the engine is used outside its with block")
        return self._sharing

    def _take(self, node: RemoteNode, message: Message) -> None:
        match message.kind:
            case "done" | "refused" | "named":
                node.take_answer(message)
            case "step":
                assert not isinstance(self._program, GenerationProgram)
                self._program.report_progress(message.facts["done"], message.facts["of"])
            case kind if kind != "pong":
                self._take_reply(node, message)

    def _take_reply(self, node: RemoteNode, message: Message) -> None:
        facts, sharing = message.facts, self._shared()
        match message.kind:
            case "complete":
                serials, _, *outputs = message.arrays
                counts = outputs.pop(0).tolist() if facts["has_counts"] else None
                samples = self._take_back(node, facts["test"], serials.tolist())
                if samples:
                    sharing.reply(facts["test"]).complete(samples, outputs[0] if facts["is_one"] else outputs, counts)
            case "first_token":
                serials, _, tokens = message.arrays
                samples = sharing.with_consumer(node.consumer, serials.tolist())
                if len(samples) == len(serials):
                    sharing.reply(facts["test"]).first_token(samples, tokens)
            case "fail":
                if samples := self._take_back(node, facts["test"], message.arrays[0].tolist()):
                    sharing.reply(facts["test"]).fail(samples, facts["reason"])
            case "give_up":
                samples = sharing.take_back(node.consumer, message.arrays[0].tolist())
                node.note_answered(len(samples))
                sharing.reply(facts["test"]).fail(samples, facts["reason"])
            case "invalidate":
                sharing.reply(facts["test"]).invalidate(facts["reason"])
            case kind:
                raise ValueError(f"a {kind!r}")

    def _take_back(self, node: RemoteNode, test: int, serials: Sequence[int]) -> Samples | None:
        """Remove samples that a node has answered; None, and the test is no more valid, where it did not have one."""
        samples = self._shared().take_back(node.consumer, serials)
        node.note_answered(len(samples))
        if len(samples) == len(serials):
            return samples
        if not self._lost:  # otherwise its samples were failed when another node was lost
            reply = self._shared().reply(test)
            reply.invalidate(f"{node.title} answered a sample twice, or one that it did not have")
            reply.fail(samples, "answered together with a sample that its node did not have")
        return None

    def _lose(self, node: RemoteNode, reason: str) -> None:
        """End what runs: a run that has lost a node is not valid, whatever the others answer."""
        with self._losing:
            if self._is_leaving.is_set() or node.ended:
                return
            node.ended = f"{node.title} {reason}"
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

    def _leave(self) -> None:
        self._is_leaving.set()
        if self._monitor.is_alive():
            self._monitor.join()
        for node in self.nodes:
            node.close(0.0 if node.ended else _PULSE_S)


def add_nodes(counts: Sequence[EngineStatistics | None], ended: Sequence[str]) -> EngineStatistics:
    """Return the counts of all nodes added up, and those of each; None stands for a node that was lost."""
    return replace(
        add_statistics([each for each in counts if each is not None]),
        instances=len(counts),
        by_instance=[
            InstanceStatistics(ended="" if each else how, counted=each) for each, how in zip(counts, ended, strict=True)
        ],
    )
