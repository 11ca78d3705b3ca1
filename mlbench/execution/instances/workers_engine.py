"""One engine made of several workers: samples wait in one queue for a worker with capacity."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Reply, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics
from mlbench.execution.batching import by_length, passes
from mlbench.execution.instances.dispatcher import Dispatcher
from mlbench.execution.instances.messages import Message, numbers
from mlbench.execution.instances.sample_store import SampleStore
from mlbench.execution.instances.statistics import add_calls, add_statistics
from mlbench.execution.instances.worker import Worker
from mlbench.execution.variations import Variation
from mlbench.system.guards import undo_on_error
from mlbench.wire.engine_statistics import statistics_from_json
from mlbench.wire.runtime_facts import merge_runtimes, runtime_from_json

_PATIENCE_S = 10.0

_AnyWorker = TypeVar("_AnyWorker", bound=Worker)


class WorkersEngine(Engine, Generic[_AnyWorker]):
    """Answers through processes, each of which has an engine, the samples, and its part of the processors.

    Samples travel as numbers: have them loaded through `library`. What the end of a worker means is for each kind of
    these engines to say, and so is what becomes of an answer to a sample that the worker did not have.
    """

    ended = "an instance has ended"
    """Why a worker does not answer a question."""
    ahead = 1
    """A worker is given so many times what keeps its engine busy."""

    def __init__(self, model: Model, dataset: Dataset, batching: str) -> None:
        """Store this side's own ``model`` and ``dataset``, for facts that need no samples, and the plan's batching."""
        self._program = model.program
        self._is_language = isinstance(model.program, GenerationProgram)
        self._is_inline = batching == "inline"
        self._is_sorted = self._is_language or batching == "bucketed"
        self._lengths: dict[int, int] = {}
        self.library: Dataset = SampleStore(dataset, self._load, self._unload)
        """The dataset as this engine has it: what is loaded is loaded in all workers."""
        self._workers: list[_AnyWorker] = []
        self._sharing: Dispatcher | None = None
        self._is_leaving = threading.Event()

    def __enter__(self) -> Self:
        """Start the workers, and have each make its engine.

        Raises:
            UsageError: one is not available, or its engine cannot be made; other errors as it raises.
            ProcessEndedError: one ended over it.
        """
        with undo_on_error(partial(self._leave, patience_s=0)):
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the workers after what they run; a process that does not exit in time is killed."""
        self._leave(patience_s=_PATIENCE_S)

    @abstractmethod
    def _start(self) -> None:
        """Start the workers, as entering does, and the queue before the first is asked for an answer."""

    @abstractmethod
    def _leave(self, patience_s: float) -> None:
        """Stop the workers, whatever of them there is; none takes longer than that."""

    def warm_up(self, samples: Samples) -> None:
        """Warm all workers up at the same time: timings of a single busy one would not hold.

        Raises:
            ProcessEndedError: one ended; other errors as the engine raises.
        """
        self._note_capacities(self._ask("warm_up", [numbers(samples.indices)]))

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Queue samples, those with like lengths together where the plan wants that; inline, deal them out at once.

        Of a language model's query, each pass over the dataset is sorted and given out by itself.
        """
        if self._is_inline:
            self._shared().deal(samples, reply)
            return
        if not self._is_sorted:
            self._shared().put(samples, reply)
            return
        parts = passes(samples.indices) if self._is_language else [range(len(samples))]
        for each in parts:
            part = samples if len(parts) == 1 else samples[each.start : each.stop]
            part = by_length(part, [self._lengths.get(index, 0) for index in part.indices])
            self._shared().put(part, reply, is_apart=len(parts) > 1)

    def capacity(self) -> Capacity:
        """Ask for as many samples as all workers do."""
        wanted = [worker.consumer.capacity for worker in self._workers]
        return Capacity(batch=max(each.batch for each in wanted), in_flight=sum(each.in_flight for each in wanted))

    def flush(self) -> None:
        """Flush partial batches, including samples not yet sent to a worker."""
        self._shared().flush()
        for worker in self._serving():
            worker.flush()

    def statistics(self) -> EngineStatistics:
        """Return the counts of all workers added up, and those of each; none of one that has ended."""
        counts = [None if each is None else statistics_from_json(each) for each in self._ask_about("statistics")]
        return replace(
            add_statistics([each for each in counts if each is not None]),
            instances=len(counts),
            by_instance=[worker.describe(each) for worker, each in zip(self._workers, counts, strict=True)],
        )

    def calls(self) -> Sequence[GraphCalls]:
        """Return the calls of all workers."""
        return add_calls(GraphCalls(**call) for calls in self._ask_about("calls") for call in calls or ())

    def replay_graphs(self) -> str:
        """Make the graph calls of all workers free."""
        reasons = self._ask_about("replay_graphs")
        return next((str(reason) for reason in reasons if reason), self.ended if None in reasons else "")

    def runtime(self) -> RuntimeFacts:
        """Return the common facts of the workers' runtimes, and the differences."""
        for worker, values in zip(self._workers, self._ask_about("runtime"), strict=True):
            worker.runtime = None if values is None else runtime_from_json(values)
        return merge_runtimes([worker.runtime for worker in self._workers if worker.runtime])

    def vary(self, variations: Mapping[int, Variation]) -> Dataset:
        """Have samples made of loaded ones, in all workers, until this is called again; return where they are."""
        self._ask("vary", variations={str(index): asdict(each) for index, each in variations.items()})
        return self.library

    def _note_capacities(self, answers: Sequence[tuple[_AnyWorker, Message | None]]) -> None:
        """Note what each worker said of its capacity when it was warmed up."""
        for worker, message in answers:
            if message is None:
                raise worker.error()
            capacity = Capacity(**message.facts)
            worker.consumer.capacity = replace(capacity, in_flight=self.ahead * capacity.in_flight)

    def _load(self, indices: Sequence[int]) -> None:
        for _, message in self._ask("load", [numbers(indices)], wants_lengths=self._is_sorted):
            if message and message.arrays:
                self._lengths.update(zip(indices, message.arrays[0].tolist(), strict=True))

    def _unload(self, indices: Sequence[int]) -> None:
        for worker in self._serving():
            worker.send("unload", [numbers(indices)])

    def _ask_about(self, what: str) -> list[Any]:
        """Return what each worker reports; None for one that has ended."""
        asked = self._serving()
        for worker in asked:
            worker.send("report", what=what)
        reports = {worker: worker.wait_for_report() for worker in asked}
        for worker, message in reports.items():
            if message:
                worker.check(message)
        return [message.facts["answer"] if (message := reports.get(worker)) else None for worker in self._workers]

    def _ask(
        self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any
    ) -> list[tuple[_AnyWorker, Message | None]]:
        """Ask all workers that must answer at the same time, and return their answers; None where one ended over it.

        Raises:
            MlbenchError: a worker refused, and a user can act on that.
            ProcessEndedError: a worker refused because of another error.
        """
        asked = self._needed()
        for worker in asked:
            worker.send(kind, arrays, **facts)
        answers = [(worker, worker.wait_for_answer()) for worker in asked]
        for worker, message in answers:
            if message:
                worker.check(message)
        return answers

    def _needed(self) -> list[_AnyWorker]:
        """Return the workers without whose answer the run does not go on."""
        return self._serving()

    def _serving(self) -> list[_AnyWorker]:
        return [worker for worker in self._workers if not worker.ended]

    def _shared(self) -> Dispatcher:
        if self._sharing is None:
            raise RuntimeError("the engine is used outside its with block")
        return self._sharing

    def _take(self, worker: _AnyWorker, message: Message) -> None:
        """Handle a message of a worker; raises where it is none that a worker sends."""
        facts, sharing = message.facts, self._shared()
        match message.kind:
            case "complete":
                serials, indices, *outputs = message.arrays
                counts = outputs.pop(0).tolist() if facts["has_counts"] else None
                samples = self._take_back(worker, facts["test"], serials.tolist(), indices.tolist())
                if samples is not None:
                    sharing.reply(facts["test"]).complete(samples, outputs[0] if facts["is_one"] else outputs, counts)
            case "first_token":
                serials, indices, tokens = message.arrays
                samples = self._with_worker(worker, serials.tolist(), indices.tolist())
                if samples is not None:
                    sharing.reply(facts["test"]).first_token(samples, tokens)
            case "fail":
                serials, indices = message.arrays
                samples = self._take_back(worker, facts["test"], serials.tolist(), indices.tolist())
                if samples is not None:
                    sharing.reply(facts["test"]).fail(samples, facts["reason"])
            case "give_up":
                samples = sharing.take_back(worker.consumer, message.arrays[0].tolist())
                worker.note_answered(len(samples))
                sharing.reply(facts["test"]).fail(samples, facts["reason"])
            case "invalidate":
                sharing.reply(facts["test"]).invalidate(facts["reason"])
            case _:
                self._take_other(worker, message)

    def _take_other(self, worker: _AnyWorker, message: Message) -> None:
        """Handle a message that is not about samples."""
        match message.kind:
            case "done" | "refused":
                worker.take_answer(message)
            case "step":
                assert not isinstance(self._program, GenerationProgram)
                self._program.report_progress(message.facts["done"], message.facts["of"])
            case kind:
                raise ValueError(f"a {kind!r}")

    def _with_worker(self, worker: _AnyWorker, serials: Sequence[int], indices: Sequence[int]) -> Samples | None:
        """Return samples that a worker has; None where this is not the place to say that it does not have them."""
        return self._shared().with_consumer(worker.consumer, serials, indices)

    def _take_back(
        self, worker: _AnyWorker, test: int, serials: Sequence[int], indices: Sequence[int]
    ) -> Samples | None:
        """Remove samples that a worker has answered; None if it did not have them, and they have failed for that."""
        return self._shared().take_back(worker.consumer, serials, indices)
