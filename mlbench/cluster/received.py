"""The samples that a node has received and not yet answered, and the engine that answers them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, NoReturn

from mlbench.cluster.sample_form import SampleReader, samples_from_wire
from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Samples
from mlbench.execution.instances.messages import Message, MessageSink, NoMessageError
from mlbench.execution.instances.serving import LineReply, Part, Served

_BEYOND = 1 << 40


class ReceivedSamples(Dataset):
    """Holds each sample from its arrival to its answer, and nothing longer: the rules allow no more.

    A sample has its index in the client's dataset, or, where another of that index is still unanswered, a number that
    is no index: it may have other content. May be used from any thread.
    """

    fingerprint = ""

    def __init__(self, sample_count: int) -> None:
        """Store how many samples the client's dataset has."""
        self.count = self.performance_count = sample_count
        self._samples: dict[int, Any] = {}
        self._keys: dict[int, int] = {}
        self._beyond = count(_BEYOND)

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, serial: int, index: int, sample: Any) -> int:
        """Take a sample, and return the index that it has here."""
        key = next(self._beyond) if index in self._samples else index
        self._samples[key] = sample
        self._keys[serial] = key
        return key

    def remove(self, serials: Sequence[int]) -> None:
        """Forget samples that are answered; those that are unknown are left out."""
        for serial in serials:
            key = self._keys.pop(serial, None)
            if key is not None:
                self._samples.pop(key, None)

    def load(self, indices: Sequence[int]) -> NoReturn:
        """Do nothing: samples arrive."""
        raise LookupError("samples arrive, and cannot be loaded")

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing: samples are removed when they are answered."""

    def sample(self, index: int) -> Any:
        """Return a sample that has arrived."""
        return self._samples[index]


class ServedContent(Served):
    """An engine that is sent samples with their data, and holds each until it is answered."""

    def __init__(self, part: Part, engine: Engine, control: MessageSink, most_open: int) -> None:
        """Store what serves, where its progress goes, and the most samples that it holds."""
        super().__init__(part, engine, control)
        self._most_open = most_open
        packages = {type(each).__module__.partition(".")[0] for each in (part.dataset, part.model.program)}
        self._reader = SampleReader(["mlbench.contracts", "mlbench.toolkit", *(packages - {"mlbench"})])
        self._received = ReceivedSamples(part.dataset.count)

    def _samples(self, message: Message) -> Samples:
        """Take the samples of a message.

        Raises:
            NoMessageError: these are not samples, or more than this node holds.
        """
        serials, indices, *arrays = message.arrays
        values = samples_from_wire(message.facts, arrays, self._reader)
        if not len(values) == len(indices) == len(serials) or len(values) + len(self._received) > self._most_open:
            raise NoMessageError(f"{len(values)} samples and {len(indices)} indices for {len(self._received)}")
        ids = tuple(serials.tolist())
        return Samples(ids, tuple(map(self._received.add, ids, indices.tolist(), values)), self._received)

    def _reply(self, line: MessageSink, test: int) -> LineReply:
        return _ContentReply(line, test, self._received)

    def _warm_up(self, message: Message, line: MessageSink) -> None:
        values = samples_from_wire(message.facts, message.arrays, self._reader)
        serials = range(-len(values), 0)
        keys = list(map(self._received.add, serials, range(len(values)), values))
        try:
            self._warm_up_on(Samples(serials, keys, self._received), line)
        finally:
            self._received.remove(serials)


class _ContentReply(LineReply):
    """Sends answers, and forgets the samples that were answered."""

    def __init__(self, line: MessageSink, test: int, received: ReceivedSamples) -> None:
        super().__init__(line, test)
        self._received = received

    def give_up(self, samples: Samples, reason: str) -> None:
        """Send why those of these samples fail that are still open."""
        self._received.remove(samples.ids)
        super().give_up(samples, reason)

    def _send(self, kind: str, samples: Samples, arrays: Sequence[Any] = (), **facts: Any) -> None:
        if kind != "first_token":
            self._received.remove(samples.ids)
        super()._send(kind, samples, arrays, **facts)
