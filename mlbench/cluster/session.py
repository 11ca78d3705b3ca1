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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

from pydantic import JsonValue

from mlbench.cluster.link import Link
from mlbench.cluster.received import ServedContent
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine
from mlbench.contracts.model import Model
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.errors import UsageError
from mlbench.execution.engine_choice import contain_refusals, engine_of
from mlbench.execution.instances.engine import Building, ReplicatedEngine
from mlbench.execution.instances.messages import Message, NoMessageError
from mlbench.execution.instances.refusals import send_refusal
from mlbench.execution.instances.serving import Part, Served
from mlbench.execution.processes.failures import error_to_wire
from mlbench.execution.variations import Variation
from mlbench.records.node_record import NodeRecord
from mlbench.records.stored import Stored
from mlbench.settings.layers import GuardedSetting, refuse_foreign

logger = logging.getLogger(__name__)

_SHARED_FACTS = ("workload", "backend", "profile", "weights")
"""Facts of a job that must be the node's."""
_OF_DATA = ("load", "unload", "vary")


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
        self._served: Served | None = None

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
            case "samples", "samples" | "flush" if self._served:
                self._served.take(message, link)
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
                    send_refusal(self._control, error)

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
            self._served = self._serve(part, engine, control)
            control.send("done", fingerprints=fingerprints_of(part.model, part.dataset))
        elif self._served is None:
            raise NoMessageError(f"a {message.kind!r} before a start")
        elif message.kind in _OF_DATA and not self._config.has_data:
            raise NoMessageError(f"a {message.kind!r} to a node without data")
        else:
            self._served.take(message, control)

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

    def _serve(self, part: Part, engine: Engine, control: Link) -> Served:
        """Serve samples: a node with several instances sends their numbers one step further."""
        if not self._config.has_data:
            return ServedContent(part, engine, control, self._config.most_open)
        kind = _ServedInstances if isinstance(engine, ReplicatedEngine) else Served
        return kind(part, engine, control)


def _start_instances(building: Building, part: Part, stack: ExitStack) -> tuple[Part, Engine]:
    """Return the instances of a node as one engine, and the part whose samples are with them."""
    assert part.plan.instances != "auto"
    made = ReplicatedEngine(building, part.plan.instances, part.model, part.plan, part.dataset)
    engine = stack.enter_context(made)
    return replace(part, dataset=engine.library), engine


class _ServedInstances(Served):
    """The instances of a node, as one engine: samples are with them, not in this process."""

    _engine: ReplicatedEngine

    def _length(self, index: int) -> int:
        return self._engine.length_of(index)

    def _vary_samples(self, made: Mapping[int, Variation]) -> Dataset:
        return self._engine.vary(made)

    def _observe(self) -> RuntimeFacts:
        return self._engine.runtime()


def fingerprints_of(model: Model, dataset: Dataset) -> dict[str, str]:
    """Return the hashes of the data, the weights and the graphs."""
    return {
        "data": dataset.fingerprint,
        "weights": model.weights_fingerprint,
        **{f"graph {name}": graph.fingerprint for name, graph in model.graphs.items()},
    }
