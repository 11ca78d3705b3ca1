"""One engine made of several instances, processes on this machine."""

from __future__ import annotations

import logging
import selectors
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.model import Model
from mlbench.errors import describe_error
from mlbench.execution.cores import Core, core_groups
from mlbench.execution.devices import named_devices, near_cores
from mlbench.execution.instances.dispatcher import Dispatcher
from mlbench.execution.instances.instance import Instance
from mlbench.execution.instances.messages import Message
from mlbench.execution.instances.resource_check import cores_for
from mlbench.execution.instances.workers_engine import WorkersEngine

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Building:
    """The factory of an instance's engine: a function of a payload, ``module:function``, that returns a `Part`."""

    builder: str
    payload: Mapping[str, Any]


class ReplicatedEngine(WorkersEngine[Instance]):
    """Answers through instances. One that ends fails its samples, and the run is not valid; the others go on."""

    def __init__(self, building: Building, count: int, model: Model, plan: EnginePlan, dataset: Dataset) -> None:
        """Store what to build; ``model`` and ``dataset`` are this side's own, for facts that need no samples.

        Raises:
            UsageError: the plan names a device that is not here.
        """
        super().__init__(model, dataset, plan.batching)
        self._building = building
        self._count = count
        self._devices = named_devices(plan.devices)
        self.instances = self._workers
        self._listener = threading.Thread(target=self._listen, name="mlbench-instances", daemon=True)

    def length_of(self, index: int) -> int:
        """Return the length of a loaded sample; 0 where the plan does not go by lengths."""
        return self._lengths.get(index, 0)

    def peak_memory_bytes(self) -> int:
        """Return the most that each instance held, added up."""
        return sum(peak or 0 for peak in self._ask_about("peak_memory_bytes"))

    def _start(self) -> None:
        """Start the processes; the first makes its engine alone, while the others import what they need.

        The others then find its exports and compilations in the cache.
        """
        for number, cores in enumerate(self._core_groups()):
            self._start_instance(number, cores)
        self._make_engines(self.instances[:1])
        self._make_engines(self.instances[1:])
        self._sharing = Dispatcher([instance.consumer for instance in self.instances], self.library)
        self._listener.start()

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

    def _start_instance(self, number: int, cores: Sequence[Core]) -> None:
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
        self._is_leaving.set()
        over_s = time.monotonic() + patience_s
        for instance in self.instances:
            instance.hang_up()
        for instance in self.instances:
            instance.wait(max(0, over_s - time.monotonic()))
        if self._listener.is_alive():
            self._listener.join()
        for instance in self.instances:
            instance.close()

    def _listen(self) -> None:
        """Receive messages from the instances until all are gone."""
        with selectors.DefaultSelector() as selector:
            for instance in self.instances:
                selector.register(instance.line, selectors.EVENT_READ, instance)
            while selector.get_map():
                for key, _ in selector.select():
                    if not key.data.receive_arrived(partial(self._take_or_kill, key.data)):
                        selector.unregister(key.fileobj)
                        self._lose(key.data)

    def _take_or_kill(self, instance: Instance, message: Message) -> None:
        """Handle a message; an invalid one ends the instance, not the thread that receives from all."""
        try:
            self._take(instance, message)
        except Exception as error:  # an instance runs a plugin's code, and its memory may be damaged
            logger.exception("%s sent an invalid message", instance.name)
            instance.kill(f"sent a {message.kind!r} that is invalid ({describe_error(error)}), and was killed")

    def _lose(self, instance: Instance) -> None:
        """Fail the samples of an instance that is gone."""
        if not self._is_leaving.is_set():
            instance.note_end()
            logger.error("%s", instance.ended)
            self._shared().lose(instance.consumer, instance.ended)
        instance.take_answer(None)
