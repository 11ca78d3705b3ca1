"""The node's side of one run: an engine for one client, from its first words to its last.

======================  =================================  ===========================================================
from a client           facts                              arrays
======================  =================================  ===========================================================
``open``                role, session
``start``               job
``warm_up``             form and count, or forms           those of the samples
``report``              what
``load``, ``unload``                                       dataset indices
``vary``                variations (by index)
``name``, ``ping``
``samples``             those, and test, is_flushed        serials, dataset indices, those of the samples
``flush``
======================  =================================  ===========================================================

``open`` is the first message of each connection; its role is ``facts``, ``control`` or ``samples``. The last two belong
to a session, of which a node has one at a time. ``start``, ``warm_up`` and ``report`` come over the control connection,
and are answered with ``done`` or ``refused`` in their order, ``name`` and ``ping`` with ``named`` and ``pong`` at once.
Answers to samples are an instance's (`mlbench.execution.instances.messages`), and go where the samples came from.

Where nodes have the data themselves (`NodeConfig.has_data`), ``samples`` and ``warm_up`` have dataset indices alone,
and ``load``, ``unload`` and ``vary`` are for such nodes, as for an instance.
"""

from __future__ import annotations

import importlib
import logging
import queue
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

from pydantic import JsonValue

from mlbench.cluster.link import Link
from mlbench.cluster.own_data import OwnDataServing
from mlbench.cluster.received import ReceivedSamples
from mlbench.cluster.sample_form import SampleReader, samples_from_wire
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Capacity, Engine, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.errors import UsageError
from mlbench.execution.engine_choice import contain_refusals, engine_of
from mlbench.execution.instances.engine import Building, ReplicatedEngine
from mlbench.execution.instances.messages import Message, NoMessageError
from mlbench.execution.instances.serving import LineReply, Part, answer_about, submit_to, warm_up_engine
from mlbench.execution.processes.failures import error_to_wire
from mlbench.records.node_record import NodeRecord
from mlbench.records.stored import Stored
from mlbench.settings.layers import GuardedSetting, refuse_foreign

logger = logging.getLogger(__name__)

_SHARED_FACTS = ("workload", "backend", "profile", "weights")
"""Facts of a job that must be the node's."""


class NodeConfig(Stored):
    """Settings of a session's process, which gets them as JSON."""

    facts: NodeRecord
    builder: str
    """A function of a job, ``module:function``, that returns a `Part`."""
    settings: dict[str, JsonValue]
    """The node's own, which replace a client's."""
    most_open: int
    """Most samples that it holds: a client that sends more is refused."""
    guards: Sequence[GuardedSetting] = ()
    """Settings that a client may only set to allowed values."""
    has_data: bool = False
    """Whether it loads samples itself, and is sent their numbers alone."""


class Session:
    """One client's run on this node. `take` and `note_end` are called by links, `run` by the process's main thread."""

    def __init__(self, config: NodeConfig, on_left: Callable[[], None]) -> None:
        """Store what may be asked of this node, and what to call when its client has left."""
        self._config = config
        self._on_left = on_left
        self._roles: dict[Link, str] = {}
        self._opening = threading.Lock()
        self._id = ""
        self._control: Link | None = None
        self._questions: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._serving: _Serving | OwnDataServing | None = None

    def take(self, link: Link, message: Message) -> None:
        """Handle a message.

        Raises:
            NoMessageError: it has no place here.
        """
        match self._roles.get(link), message.kind:
            case None, "open":
                self._open(link, message)
            case "control", "ping":
                link.send("pong")
            case "control", "name":
                link.send("named", name=self._config.facts.name)
            case "control", "start" | "warm_up" | "report" | "load" | "unload" | "vary":
                self._questions.put(message)
            case "samples", "samples" | "flush" if self._serving:
                self._serving.take(link, message)
            case _:
                raise NoMessageError(f"a {message.kind!r} out of place")

    def note_end(self, link: Link, reason: str) -> None:
        """End the session when a connection of it ends: without all of them it is of no use."""
        if (role := self._roles.pop(link, "")) in ("control", "samples"):
            logger.info("the client %s (%s)", reason, role)
            self._on_left()
            self._questions.put(None)

    def run(self) -> None:
        """Answer questions until the client leaves."""
        with ExitStack() as stack:
            while (message := self._questions.get()) is not None:
                assert self._control
                try:
                    self._answer(message, self._control, stack)
                except OSError:
                    logger.info("the client left before it was answered")
                except Exception as error:  # reported to the client, which decides what it means
                    traceback.print_exc()
                    self._control.send("refused", error=asdict(error_to_wire(error)))

    def _open(self, link: Link, message: Message) -> None:
        match message.facts:
            case {"role": "facts"}:
                self._roles[link] = "facts"
                link.send("facts", node=self._config.facts.model_dump(mode="json"))
            case {"role": "control", "session": str(session)} if session:
                with self._opening:
                    is_free = not self._id
                    self._id = self._id or session
                if is_free:
                    self._control = link
                    self._roles[link] = "control"
                    link.send("done")
                else:
                    busy = UsageError("it serves another run.", hint="Try again when that is over.")
                    link.send("refused", error=asdict(error_to_wire(busy)))
            case {"role": "samples", "session": str(session)} if session and session == self._id:
                self._roles[link] = "samples"
                link.send("done")
            case _:
                raise NoMessageError("a connection of no session")

    def _answer(self, message: Message, control: Link, stack: ExitStack) -> None:
        if message.kind == "start":
            part, engine = self._start(message.facts["job"], stack)
            self._serving = self._serve(part, engine, control)
            control.send("done", fingerprints=fingerprints_of(part.model, part.dataset))
        elif self._serving is None:
            raise NoMessageError(f"a {message.kind!r} before a start")
        elif isinstance(self._serving, OwnDataServing):
            self._serving.answer(message)
        elif message.kind == "warm_up":
            capacity = self._serving.warm_up(message)
            control.send("done", batch=capacity.batch, in_flight=capacity.in_flight)
        elif message.kind == "report":
            control.send("done", answer=self._serving.answer(message.facts["what"]))
        else:
            raise NoMessageError(f"a {message.kind!r} to a node without data")

    def _start(self, job: Mapping[str, Any], stack: ExitStack) -> tuple[Part, Engine]:
        own = self._config.facts
        for name in _SHARED_FACTS:
            if job[name] != getattr(own, name):
                raise UsageError(f"it serves {name} {getattr(own, name)}, but {job[name]} is requested.")
        module, _, function = self._config.builder.partition(":")
        foreign = {key: value for key, value in job["settings"].items() if not key.startswith("workload.")}
        settings = {**foreign, **self._config.settings}
        hint = "Start the node with the same --set, or with --trust: `mlbench serve`."
        refuse_foreign("the client", settings, self._guards(), hint=hint)
        payload = {**job, "settings": settings, "network": None, "accuracy_of": "", "later_models": ()}
        if not self._config.has_data:
            payload["folder"] = stack.enter_context(tempfile.TemporaryDirectory(prefix="mlbench-node-"))
        part: Part = getattr(importlib.import_module(module), function)(payload)
        if self._config.has_data and part.plan.instances != 1:
            building = Building(builder=self._config.builder, payload=payload)
            return _start_instances(building, part, stack)
        made = engine_of(part.backend, part.model, part.plan)
        with contain_refusals(made):
            engine = stack.enter_context(made)
        return part, engine

    def _guards(self) -> Sequence[GuardedSetting]:
        return [each for each in self._config.guards if each.key not in self._config.settings]

    def _serve(self, part: Part, engine: Engine, control: Link) -> _Serving | OwnDataServing:
        if self._config.has_data:
            return OwnDataServing(part, engine, control)
        if not isinstance(program := part.model.program, GenerationProgram):
            program.listener = lambda done, of: control.send("step", done=done, of=of)
        return _Serving(part, engine, self._config.most_open)


def _start_instances(building: Building, part: Part, stack: ExitStack) -> tuple[Part, Engine]:
    """Return the instances of a node as one engine, and the part whose samples are with them."""
    assert part.plan.instances != "auto"
    made = ReplicatedEngine(building, part.plan.instances, part.model, part.plan, part.dataset)
    engine = stack.enter_context(made)
    return replace(part, dataset=engine.library), engine


class _Serving:
    """An engine, and the samples that it has."""

    def __init__(self, part: Part, engine: Engine, most_open: int) -> None:
        self._part = part
        self._engine = engine
        self._most_open = most_open
        packages = {type(each).__module__.partition(".")[0] for each in (part.dataset, part.model.program)}
        self._reader = SampleReader(["mlbench.contracts", "mlbench.toolkit", *(packages - {"mlbench"})])
        self._received = ReceivedSamples(part.dataset.count)
        self._replies: dict[tuple[Link, int], _NodeReply] = {}
        self._submitting = threading.Lock()  # connections have a thread each, and an engine is called by one

    def take(self, link: Link, message: Message) -> None:
        """Give the engine samples, or flush it.

        Raises:
            NoMessageError: these are not samples, or more than this node holds.
        """
        with self._submitting:
            if message.kind == "samples":
                self._submit(link, message)
            if message.kind == "flush" or message.facts["is_flushed"]:
                self._engine.flush()

    def warm_up(self, message: Message) -> Capacity:
        """Warm the engine up on the samples of a message, and return its capacity."""
        values = samples_from_wire(message.facts, message.arrays, self._reader)
        serials = range(-len(values), 0)
        keys = list(map(self._received.add, serials, range(len(values)), values))
        try:
            return warm_up_engine(self._engine, Samples(serials, keys, self._received), self._part.plan)
        finally:
            self._received.remove(serials)

    def answer(self, what: str) -> Any:
        """Return statistics or facts of the engine or its process."""
        return answer_about(what, self._engine, self._part.backend.observe)

    def _submit(self, link: Link, message: Message) -> None:
        test, (serials, indices, *arrays) = message.facts["test"], message.arrays
        values = samples_from_wire(message.facts, arrays, self._reader)
        if not len(values) == len(indices) == len(serials) or len(values) + len(self._received) > self._most_open:
            raise NoMessageError(f"{len(values)} samples and {len(indices)} indices for {len(self._received)}")
        ids = tuple(serials.tolist())
        keys = tuple(map(self._received.add, ids, indices.tolist(), values))
        reply = self._replies.get((link, test))
        if reply is None:
            reply = self._replies[link, test] = _NodeReply(link, test, self._received)
        submit_to(self._engine, Samples(ids, keys, self._received), reply)


class _NodeReply(LineReply):
    """Sends answers, and forgets the samples that were answered."""

    def __init__(self, link: Link, test: int, received: ReceivedSamples) -> None:
        super().__init__(link, test)
        self._received = received

    def give_up(self, samples: Samples, reason: str) -> None:
        """Send why those of these samples fail that are still open."""
        self._received.remove(samples.ids)
        super().give_up(samples, reason)

    def _send(self, kind: str, samples: Samples, arrays: Sequence[Any] = (), **facts: Any) -> None:
        if kind != "first_token":
            self._received.remove(samples.ids)
        super()._send(kind, samples, arrays, **facts)


def fingerprints_of(model: Model, dataset: Dataset) -> dict[str, str]:
    """Return the hashes of the data, the weights and the graphs."""
    return {
        "data": dataset.fingerprint,
        "weights": model.weights_fingerprint,
        **{f"graph {name}": graph.fingerprint for name, graph in model.graphs.items()},
    }
