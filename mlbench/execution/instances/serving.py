"""The instance's side: builds an engine, submits incoming samples, and sends back the answers."""

from __future__ import annotations

import gc
import importlib
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mlbench.contracts.backend import Backend, EnginePlan
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Capacity, Engine, Reply, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.contracts.refusing import refusing
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.errors import describe_error, one_line
from mlbench.execution.engine_choice import contain_refusals, engine_of
from mlbench.execution.instances.messages import Line, Message, MessageSink, NoMessageError, numbers
from mlbench.execution.instances.refusals import send_refusal
from mlbench.execution.plain_values import plain_entries
from mlbench.execution.processes.usage import peak_bytes
from mlbench.execution.variations import Variation, VariedDataset
from mlbench.wire.engine_statistics import statistics_to_json
from mlbench.wire.json_values import value_of_json
from mlbench.wire.runtime_facts import runtime_to_json

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The parts of an instance. A builder, ``module:function`` of a payload, returns it in each process."""

    backend: Backend
    model: Model
    plan: EnginePlan
    dataset: Dataset


def serve(line: Line) -> int:
    """Make an engine, and serve until the socket closes; return the exit status.

    The first message says of what it is made, the second one that it may be: others may make theirs first.
    """
    start = line.receive()
    if start is None:
        return 0
    with ExitStack() as stack:
        try:
            part = _build(start.facts)
            if line.receive() is None:
                return 0
            made = engine_of(part.backend, part.model, part.plan)
            with contain_refusals(made):
                engine = stack.enter_context(made)
        except Exception as error:  # any exception is reported to the other side
            send_refusal(line, error)
            return 1
        line.send("done", processors=sorted(os.sched_getaffinity(0)))
        served = Served(part, engine, line)
        try:
            while message := line.receive():
                served.take(message, line)
        except NoMessageError as error:
            logger.error("the run sent an invalid message: %s", error)
            return 1
    return 0


def _build(asked: Mapping[str, Any]) -> Part:
    module, _, function = asked["builder"].partition(":")
    part: Part = getattr(importlib.import_module(module), function)(asked["payload"])
    backend = part.backend.instance(asked["number"], asked["of"])
    return Part(backend=backend, model=part.model, plan=part.plan, dataset=part.dataset)


class Served:
    """An engine and its dataset, behind the connections to one client."""

    def __init__(self, part: Part, engine: Engine, control: MessageSink) -> None:
        """Store what serves, and where its progress within a batch goes."""
        self._part = part
        self._dataset = part.dataset
        self._engine = engine
        self._replies: dict[tuple[MessageSink, int], LineReply] = {}
        self._submitting = threading.Lock()  # connections may have a thread each, and an engine is called by one
        self._questions = {"load": self._load, "warm_up": self._warm_up, "vary": self._vary, "report": self._report}
        if not isinstance(program := part.model.program, GenerationProgram):
            program.listener = lambda done, of: control.send("step", done=done, of=of)

    def take(self, message: Message, line: MessageSink) -> None:
        """Handle a message; answers go where it came from."""
        match message.kind:
            case "samples":
                with self._submitting:
                    self._submit(message, line)
                    if message.facts["is_flushed"]:
                        self._engine.flush()
            case "flush":
                with self._submitting:
                    self._engine.flush()
            case "unload":
                self._part.dataset.unload(message.arrays[0].tolist())
            case question:
                try:
                    self._questions[question](message, line)
                except Exception as error:  # reported to the other side, which decides what it means
                    send_refusal(line, error)

    def _submit(self, message: Message, line: MessageSink) -> None:
        samples, key = self._samples(message), (line, message.facts["test"])
        reply = self._replies.get(key)
        if reply is None:
            reply = self._replies[key] = self._reply(*key)
        try:
            self._engine.submit(samples, reply)
        except Exception as error:  # an engine is not our code; the other side knows which have no answer yet
            logger.exception("submit failed")
            reply.give_up(samples, describe_error(error))

    def _samples(self, message: Message) -> Samples:
        serials, indices = message.arrays
        return Samples(serials.tolist(), indices.tolist(), self._dataset)

    def _reply(self, line: MessageSink, test: int) -> LineReply:
        return LineReply(line, test)

    def _load(self, message: Message, line: MessageSink) -> None:
        indices = message.arrays[0].tolist()
        self._part.dataset.load(indices)
        lengths = [numbers([self._length(index) for index in indices])] if message.facts["wants_lengths"] else []
        line.send("done", lengths)

    def _length(self, index: int) -> int:
        """Return a sample's length; if a workload's code fails on it, it will also fail when it is run."""
        program, sample = self._part.model.program, self._part.dataset.sample(index)
        try:
            return (
                len(program.prompt(sample).tokens) if isinstance(program, GenerationProgram) else program.length(sample)
            )
        except Exception:  # a workload's code
            return 0

    def _warm_up(self, message: Message, line: MessageSink) -> None:
        indices = message.arrays[0].tolist()
        self._warm_up_on(Samples(range(len(indices)), indices, self._part.dataset), line)

    def _warm_up_on(self, samples: Samples, line: MessageSink) -> None:
        """Warm the engine up on typical samples, and say how many it takes at a time."""
        with contain_refusals(self._engine):
            self._engine.warm_up(samples)
        gc.collect()
        gc.freeze()  # existing objects stay, and the garbage collector need not scan them during the measurement
        plan = self._part.plan
        likely = plan.largest_batch if plan.batch == "auto" else plan.batch
        line.send("done", **asdict(self._engine.capacity() or Capacity(batch=1, in_flight=2 * likely)))

    def _vary(self, message: Message, line: MessageSink) -> None:
        made = {int(index): value_of_json(Variation, each) for index, each in message.facts["variations"].items()}
        self._dataset = self._vary_samples(made)
        line.send("done")

    def _vary_samples(self, made: Mapping[int, Variation]) -> Dataset:
        """Return the samples as they are from now on: some made of others, by their index."""
        return VariedDataset(self._part.dataset, made) if made else self._part.dataset

    def _report(self, message: Message, line: MessageSink) -> None:
        answer = self._answer_about(message.facts["what"])
        if isinstance(answer, Mapping):  # as a record can hold it, and what is left out
            kept, reason = plain_entries(answer)
            answer = {**kept, "not_stored": reason} if reason else kept
        line.send("done", answer=answer)

    def _answer_about(self, what: str) -> Any:
        """Return facts of the engine or its process: ``statistics``, ``calls``, ``runtime``, ``peak_memory_bytes``.

        ``replay_graphs`` makes the graph calls free, and returns why that is impossible.
        """
        match what:
            case "statistics":
                return statistics_to_json(self._engine.statistics())
            case "calls":
                return [asdict(call) for call in self._engine.calls()]
            case "replay_graphs":
                return self._engine.replay_graphs()
            case "runtime":
                return runtime_to_json(self._observe())
        return peak_bytes()

    def _observe(self) -> RuntimeFacts:
        return self._part.backend.observe()


class LineReply(Reply):
    """Sends the answers of one test unchecked: they are checked on the receiving side.

    What cannot be sent is a failed sample, said at once. Nothing is raised into the engine, not even where the other
    side is gone: who receives from it ends the engine.
    """

    def __init__(self, line: MessageSink, test: int) -> None:
        """Store where answers go, and the number of the test that they belong to."""
        self._line = line
        self._test = test

    @refusing
    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Send answers."""
        is_one = isinstance(outputs, np.ndarray)
        arrays = [outputs] if isinstance(outputs, np.ndarray) else list(outputs)
        for array in arrays:
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                self.fail(samples, f"reply is a {type(array).__name__}, not a NumPy array of numbers")
                return
        counts = [] if token_counts is None else [np.array(token_counts)]
        if counts and counts[0].dtype.kind not in "iu":
            self.fail(samples, f"token counts are {counts[0].dtype}, expected integers")
            return
        self._send("complete", samples, [*counts, *arrays], is_one=is_one, has_counts=bool(counts))

    @refusing
    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Send first tokens."""
        self._send("first_token", samples, [tokens])

    @refusing
    def fail(self, samples: Samples, reason: str) -> None:
        """Send why there is no answer."""
        self._send("fail", samples, reason=one_line(reason))

    def give_up(self, samples: Samples, reason: str) -> None:
        """Send why those of these samples fail that are still open."""
        self._send_if_connected("give_up", [numbers(samples.ids)], reason=reason)

    def invalidate(self, reason: str) -> None:
        """Send why the run does not count."""
        self._send_if_connected("invalidate", reason=one_line(reason))

    def refuse(self, method: str, samples: Samples, error: BaseException) -> None:
        """Send that a call failed."""
        logger.exception("%s() raised", method)
        try:
            self._send("fail", samples, reason=f"{method}() raised {describe_error(error)}")
        except Exception:  # these are not samples: those that wait are ended by the other side's timeout
            logger.exception("it is unknown which reply it was")

    def _send(self, kind: str, samples: Samples, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        keys = numbers(samples.ids), numbers(samples.indices)
        self._send_if_connected(kind, [*keys, *arrays], **facts)

    def _send_if_connected(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        try:
            self._line.send(kind, arrays, test=self._test, **facts)
        except OSError as error:
            logger.debug("%s was not sent, the other side is gone: %s", kind, error)
