"""One queue for several consumers: assigns samples, and fails those of a consumer that is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Capacity, Reply, Samples
from mlbench.execution.batching import Backlog

Give = Callable[[Samples, int, bool], None]
"""Sends samples: with serial numbers as ids, the number of their test, and whether no more are coming."""

_NOBODY = -1
"""The id of a sample that is not with the consumer: the reply that receives it reports the fault."""


@dataclass(slots=True, eq=False)
class Consumer:
    """A consumer of samples, and the samples it has. Written by `Dispatcher`, except the capacity."""

    give: Give
    capacity: Capacity
    under_way: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By serial number: id, dataset index, number of the test."""
    last_fed: int = -1
    """The serial number that its last samples began with; -1: it had none."""
    is_gone: bool = False

    @property
    def room(self) -> int:
        """Number of further samples that it can take."""
        return self.capacity.in_flight - len(self.under_way)


class Dispatcher:
    """Samples wait here in the order of their arrival. All methods may be called from any thread.

    No consumer gets more than its capacity, so that a slow one does not hoard what a fast one could answer. Samples
    change their ids for serial numbers, since those of one test may come again in the next.
    """

    def __init__(self, consumers: Sequence[Consumer], dataset: Dataset) -> None:
        """Store who takes, and what samples are of."""
        self._present = list(consumers)
        self._dataset = dataset
        self._lock = threading.Lock()
        self._backlog = Backlog()
        self._is_flushed = False
        self._serial = 0
        self._tests: list[Reply] = []
        self._idle_end = ""
        self._last_end = ""

    def put(self, samples: Samples, reply: Reply, *, is_apart: bool = False) -> None:
        """Add samples behind those that wait; those that are apart are not given together with any others."""
        with self._lock:
            idle_end, self._idle_end = self._idle_end, ""
            self._is_flushed = False
            if len(samples) == 1 and not self._backlog and (consumer := self._least_loaded(1)):
                self._send(consumer, samples, reply)  # as it would be fed, at a fraction of the time
                lost = []
            else:
                self._backlog.add(samples, reply, is_apart=is_apart)
                self._feed()
                lost = self._unanswerable()
        if idle_end:
            reply.invalidate(idle_end)
        _fail(lost)

    def deal(self, samples: Samples, reply: Reply) -> None:
        """Give the samples of a query out at once: the least loaded consumers get a like part each.

        For queries that come one after another, since the sender waits for the last of these samples.
        """
        with self._lock:
            idle_end, self._idle_end = self._idle_end, ""
            takers = sorted(self._present, key=_load)[: len(samples)]
            for number, consumer in enumerate(takers):
                part = slice(*(place * len(samples) // len(takers) for place in (number, number + 1)))
                self._send(consumer, samples[part], reply)
            lost = [] if takers else [(reply, samples, self._last_end)]
        if idle_end:
            reply.invalidate(idle_end)
        _fail(lost)

    def flush(self) -> None:
        """Mark samples sent from now on as the last, until more arrive."""
        with self._lock:
            self._is_flushed = True

    def reply(self, test: int) -> Reply:
        """Return the reply of a test."""
        return self._tests[test]

    def with_consumer(
        self, consumer: Consumer, serials: Sequence[int], indices: Sequence[int] | None = None
    ) -> Samples:
        """Return samples that a consumer has, with their original ids; without indices, those of them that it has."""
        with self._lock:
            given = [consumer.under_way.get(serial) for serial in serials]
        return self._samples(given, indices)

    def take_back(self, consumer: Consumer, serials: Sequence[int], indices: Sequence[int] | None = None) -> Samples:
        """Remove samples that a consumer has finished, by default all that it has, and send it more."""
        with self._lock:
            given = [consumer.under_way.pop(serial, None) for serial in serials]
            self._feed()
        return self._samples(given, indices)

    def lose(self, consumer: Consumer, reason: str) -> None:
        """Fail the samples of a consumer that is gone, and, if it was the last, all waiting ones.

        A run that has lost a consumer must not be valid: if it had nothing, the test that samples come
        from next is invalidated.
        """
        with self._lock:
            consumer.is_gone = True
            self._present = [each for each in self._present if not each.is_gone]
            given, consumer.under_way = list(consumer.under_way.values()), {}
            lost = [
                (self._tests[test], self._samples(own, None), reason)
                for test in sorted({test for *_, test in given})
                if (own := [each for each in given if each[2] == test])
            ]
            self._last_end, self._idle_end = reason, "" if lost else reason
            self._feed()
            lost += self._unanswerable()
        _fail(lost)

    def _feed(self) -> None:
        """Send waiting samples, as far as there is capacity."""
        while self._backlog and (consumer := self._least_loaded(len(self._backlog))):
            batch_size = consumer.capacity.batch
            share = min(consumer.room, len(self._backlog) // len(self._present))
            batch = self._backlog.cut(max(batch_size, share - share % batch_size))
            self._send(consumer, batch.samples, batch.reply)

    def _send(self, consumer: Consumer, samples: Samples, reply: Reply) -> None:
        if not self._tests or self._tests[-1] is not reply:
            self._tests.append(reply)
        test = len(self._tests) - 1
        serials = range(self._serial, self._serial + len(samples))
        self._serial = serials.stop
        consumer.under_way.update(
            zip(serials, zip(samples.ids, samples.indices, repeat(test), strict=False), strict=True)
        )
        consumer.last_fed = serials.start
        consumer.give(Samples(serials, samples.indices, samples.dataset), test, self._is_flushed)

    def _least_loaded(self, waiting: int) -> Consumer | None:
        """Return the least loaded consumer with room for the whole group; of equals, the one waiting longest."""
        roomy = [each for each in self._present if each.room >= min(each.capacity.batch, waiting)]
        return roomy[0] if len(roomy) == 1 else min(roomy, key=_load, default=None)

    def _unanswerable(self) -> list[tuple[Reply, Samples, str]]:
        """Return the waiting samples that no consumer is left to take, and why."""
        lost = []
        while self._backlog and not self._present:
            batch = self._backlog.cut(len(self._backlog))
            lost.append((batch.reply, batch.samples, self._last_end))
        return lost

    def _samples(self, given: Sequence[tuple[int, int, int] | None], indices: Sequence[int] | None) -> Samples:
        if indices is None:
            given = [each for each in given if each]
            indices = [each[1] for each in given if each]
        return Samples([each[0] if each else _NOBODY for each in given], indices, self._dataset)


def _load(consumer: Consumer) -> tuple[int, int]:
    """Return a key that is least for the least loaded consumer; of equals, for the one waiting longest."""
    return len(consumer.under_way), consumer.last_fed


def _fail(lost: Sequence[tuple[Reply, Samples, str]]) -> None:
    for reply, samples, reason in lost:
        reply.fail(samples, reason)
