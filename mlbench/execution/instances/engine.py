"""One engine made of several instances: samples wait in one queue for an instance with capacity."""

from __future__ import annotations

import logging
import selectors
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, Self

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Capacity, Engine, GraphCalls, Reply, Samples
from mlbench.contracts.generation import GenerationProgram
from mlbench.contracts.model import Model
from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.contracts.statistics import EngineStatistics, InstanceStatistics
from mlbench.errors import describe_error
from mlbench.execution.cores import Core, core_groups
from mlbench.execution.devices import named_devices, near_cores
from mlbench.execution.instances.dispatcher import Dispatcher
from mlbench.execution.instances.instance import Instance
from mlbench.execution.instances.messages import Message, numbers
from mlbench.execution.instances.resource_check import cores_for
from mlbench.execution.instances.sample_store import SampleStore
from mlbench.execution.instances.sorted_samples import put_sorted
from mlbench.execution.instances.statistics import add_calls, add_statistics
from mlbench.execution.variations import Variation
from mlbench.wire.engine_statistics import statistics_from_json
from mlbench.wire.runtime_facts import merge_runtimes, runtime_from_json

logger = logging.getLogger(__name__)

_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """The factory of an instance's engine: a function of a payload, ``module:function``, that returns a `Part`."""

    builder: str
    payload: Mapping[str, Any]


class ReplicatedEngine(Engine):
    """Answers through processes, each of which has an engine, the samples, and its part of the cores.

    Samples travel as numbers: have them loaded through `library`.
    """

    def __init__(self, building: Building, count: int, model: Model, plan: EnginePlan, dataset: Dataset) -> None:
        """Store what to build; ``model`` and ``dataset`` are this side's own, for facts that need no samples.

        Raises:
            UsageError: the plan names a device that is not here.
        """
        self._building = building
        self._count = count
        self._program = model.program
        self._is_language = isinstance(model.program, GenerationProgram)
        self._devices = named_devices(plan.devices)
        self._is_inline = plan.batching == "inline"
        self._is_sorted = self._is_language or plan.batching == "bucketed"
        self._lengths: dict[int, int] = {}
        self.library = SampleStore(dataset, self._load, self._unload)
        """The dataset as this engine has it: what is loaded is loaded in all instances."""
        self.instances: list[Instance] = []
        self._sharing: Dispatcher | None = None
        self._is_leaving = False
        self._listener = threading.Thread(target=self._listen, name="mlbench-instances", daemon=True)

    def __enter__(self) -> Self:
        """Start the processes; the first makes its engine alone, while the others import what they need.

        The others then find its exports and compilations in the cache.

        Raises:
            UsageError: there are more instances than cores, or the engine cannot be made; other errors as it raises.
            ProcessEndedError: an instance ended.
        """
        try:
            for number, cores in enumerate(self._core_groups()):
                self._start(number, cores)
            self._make_engines(self.instances[:1])
            self._make_engines(self.instances[1:])
        except BaseException:
            self._leave(patience_s=0)
            raise
        self._sharing = Dispatcher([instance.consumer for instance in self.instances], self.library)
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the instances after what they run; a process that does not exit in time is killed."""
        self._leave(patience_s=_PATIENCE_S)

    def warm_up(self, samples: Samples) -> None:
        """Warm all instances up at the same time: timings of a single busy instance would not hold.

        Raises:
            ProcessEndedError: an instance ended; other errors as the engine raises.
        """
        for instance, message in self._ask("warm_up", samples.indices):
            if message is None:
                raise instance.error()
            instance.consumer.capacity = Capacity(**message.facts)

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
        put_sorted(self._shared(), samples, reply, self._lengths, by_pass=self._is_language)

    def capacity(self) -> Capacity:
        """Ask for as many samples as all instances do."""
        wanted = [instance.consumer.capacity for instance in self.instances]
        return Capacity(batch=max(each.batch for each in wanted), in_flight=sum(each.in_flight for each in wanted))

    def flush(self) -> None:
        """Flush partial batches, including samples not yet sent to an instance."""
        self._shared().flush()
        for instance in self._serving():
            instance.send("flush")

    def statistics(self) -> EngineStatistics:
        """Return the counts of all instances added up, and those of each."""
        counts = [None if each is None else statistics_from_json(each) for each in self._ask_about("statistics")]
        return replace(
            add_statistics([each for each in counts if each is not None]),
            instances=self._count,
            by_instance=[
                InstanceStatistics(
                    processors=instance.processors,
                    device=instance.device,
                    ended="" if each else instance.ended,
                    counted=each,
                )
                for instance, each in zip(self.instances, counts, strict=True)
            ],
        )

    def calls(self) -> Sequence[GraphCalls]:
        """Return the calls of all instances."""
        return add_calls(GraphCalls(**call) for calls in self._ask_about("calls") for call in calls or ())

    def replay_graphs(self) -> str:
        """Make the graph calls of all instances free."""
        reasons = self._ask_about("replay_graphs")
        return next((reason for reason in reasons if reason), "an instance has ended" if None in reasons else "")

    def runtime(self) -> RuntimeFacts:
        """Return the backend's facts from the instances."""
        return merge_runtimes([runtime_from_json(each) for each in self._ask_about("runtime") if each is not None])

    def vary(self, variations: Mapping[int, Variation]) -> Dataset:
        """Have samples made of loaded ones, in all instances, until this is called again; return where they are."""
        self._ask("vary", variations={str(index): asdict(each) for index, each in variations.items()})
        return self.library

    def length_of(self, index: int) -> int:
        """Return the length of a loaded sample; 0 where the plan does not go by lengths."""
        return self._lengths.get(index, 0)

    def peak_memory_bytes(self) -> int:
        """Return the most that each instance held, added up."""
        return sum(peak or 0 for peak in self._ask_about("peak_memory_bytes"))

    def _core_groups(self) -> Sequence[Sequence[Core]]:
        """Return the cores of each instance: near its device, where that is known."""
        cores, near = cores_for(self._count), None
        if self._devices:
            near = near_cores(
                cores, [self._devices[number % len(self._devices)].address for number in range(self._count)]
            )
            if near is None:
                logger.warning("cores are given out without regard to devices: it is not known which are near")
        return near or core_groups(cores, self._count)

    def _device(self, number: int) -> str:
        return self._devices[number % len(self._devices)].name if self._devices else ""

    def _start(self, number: int, cores: Sequence[Core]) -> None:
        instance = Instance(number, self._count, cores, self._device(number))
        self.instances.append(instance)
        own, of = (0, 1) if instance.device else (number, self._count)  # one device is all that it sees
        instance.send("start", **asdict(self._building), number=own, of=of)

    def _make_engines(self, instances: Sequence[Instance]) -> None:
        """Have some instances make their engines side by side."""
        for instance in instances:
            instance.send("make_engine")
        for instance in instances:
            processors = instance.started()
            where = f"processors {processors}" + (f" and device {instance.device}" if instance.device else "")
            logger.info("%s is ready: process %d, on %s", instance.name, instance.pid, where)

    def _leave(self, patience_s: float) -> None:
        self._is_leaving = True
        over_s = time.monotonic() + patience_s
        for instance in self.instances:
            instance.hang_up()
        for instance in self.instances:
            instance.wait(max(0, over_s - time.monotonic()))
        if self._listener.is_alive():
            self._listener.join()
        for instance in self.instances:
            instance.close()

    def _load(self, indices: Sequence[int]) -> None:
        for _, message in self._ask("load", indices, wants_lengths=self._is_sorted):
            if message and message.arrays:
                self._lengths.update(zip(indices, message.arrays[0].tolist(), strict=True))

    def _unload(self, indices: Sequence[int]) -> None:
        for instance in self._serving():
            instance.send("unload", [numbers(indices)])

    def _ask_about(self, what: str) -> list[Any]:
        """Send a request to all instances; None from those that have ended."""
        answers = dict.fromkeys(range(self._count))
        for instance, message in self._ask("report", what=what, is_patient=False):
            answers[instance.number] = message and message.facts["answer"]
        return list(answers.values())

    def _ask(
        self, kind: str, indices: Sequence[int] | None = None, *, is_patient: bool = True, **facts: Any
    ) -> list[tuple[Instance, Message | None]]:
        """Ask all instances that serve at the same time, and return their answers; None where one ended over it.

        Raises:
            MlbenchError: an instance refused, and a user can act on that.
            ProcessEndedError: an instance refused because of another error.
        """
        asked = self._serving()
        for instance in asked:
            instance.send(kind, [] if indices is None else [numbers(indices)], **facts)
        answers = [(instance, instance.answered(is_patient=is_patient)) for instance in asked]
        for instance, message in answers:
            if message:
                instance.check(message)
        return answers

    def _serving(self) -> list[Instance]:
        return [instance for instance in self.instances if not instance.ended]

    def _shared(self) -> Dispatcher:
        if self._sharing is None:
            raise RuntimeError("the engine is used outside its with block")
        return self._sharing

    def _listen(self) -> None:
        """Receive messages from the instances until all are gone."""
        with selectors.DefaultSelector() as selector:
            for instance in self.instances:
                selector.register(instance.line, selectors.EVENT_READ, instance)
            while selector.get_map():
                for key, _ in selector.select():
                    if message := key.data.receive():
                        self._take_or_kill(key.data, message)
                    else:
                        selector.unregister(key.fileobj)
                        self._lose(key.data)

    def _take_or_kill(self, instance: Instance, message: Message) -> None:
        """Handle a message; an invalid one ends the instance, not the thread that receives from all."""
        try:
            self._take(instance, message)
        except Exception as error:  # an instance runs a plugin's code, and its memory may be damaged
            logger.exception("%s sent an invalid message", instance.name)
            instance.kill(f"sent a {message.kind!r} that is invalid ({describe_error(error)}), and was killed")

    def _take(self, instance: Instance, message: Message) -> None:
        facts, consumer, sharing = message.facts, instance.consumer, self._shared()
        match message.kind:
            case "done" | "refused":
                instance.answer(message)
            case "step":
                assert not isinstance(self._program, GenerationProgram)
                self._program.report_progress(facts["done"], facts["of"])
            case "first_token":
                serials, indices, tokens = message.arrays
                samples = sharing.with_consumer(consumer, serials.tolist(), indices.tolist())
                sharing.reply(facts["test"]).first_token(samples, tokens)
            case "complete":
                serials, indices, *outputs = message.arrays
                counts = outputs.pop(0).tolist() if facts["has_counts"] else None
                samples = sharing.take_back(consumer, serials.tolist(), indices.tolist())
                sharing.reply(facts["test"]).complete(samples, outputs[0] if facts["is_one"] else outputs, counts)
            case "fail":
                serials, indices = message.arrays
                samples = sharing.take_back(consumer, serials.tolist(), indices.tolist())
                sharing.reply(facts["test"]).fail(samples, facts["reason"])
            case "invalidate":
                sharing.reply(facts["test"]).invalidate(facts["reason"])
            case "give_up":
                samples = sharing.take_back(consumer, message.arrays[0].tolist())
                sharing.reply(facts["test"]).fail(samples, facts["reason"])

    def _lose(self, instance: Instance) -> None:
        """Fail the samples of an instance that is gone."""
        if not self._is_leaving:
            instance.note_end()
            logger.error("%s", instance.ended)
            self._shared().lose(instance.consumer, instance.ended)
        instance.answer(None)
