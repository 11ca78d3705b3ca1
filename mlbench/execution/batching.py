"""Groups waiting samples into batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from mlbench.contracts.engine import Reply, Samples


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples to run as one batch, with their replies."""

    samples: Samples
    reply: Reply
    is_apart: bool = False
    """While it waits: whether it must not share a batch with other samples."""


class Backlog:
    """Waiting samples, in the order of arrival. For one thread at a time."""

    def __init__(self) -> None:
        self._waiting: deque[Batch] = deque()
        self._begun = 0  # how many samples of the first entry were taken; slicing off the rest would copy it
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, samples: Samples, reply: Reply, *, is_apart: bool = False) -> None:
        """Append samples; those marked apart are never batched with others."""
        self._waiting.append(Batch(samples, reply, is_apart))
        self._count += len(samples)

    def cut(self, most: int) -> Batch:
        """Take the first waiting samples, at most ``most``, all of one reply: two replies belong to two tests."""
        waiting, reply = self._waiting, self._waiting[0].reply
        parts: list[Samples] = []
        room = most
        while room and waiting and (first := waiting[0]).reply is reply:
            if first.is_apart and parts:
                break
            left = len(first.samples) - self._begun
            part = first.samples
            if self._begun or left > room:
                part = part[self._begun : self._begun + room]
            parts.append(part)
            if left <= room:
                waiting.popleft()
                self._begun = 0
            else:
                self._begun += room
            room -= min(left, room)
            if first.is_apart:
                break
        self._count -= most - room
        return Batch(join_samples(parts), reply)


class BatchQueue:
    """A queue of samples from which workers take batches. All methods are thread-safe."""

    def __init__(self, *, batch: int, max_wait_us: int) -> None:
        """Store the policy: batches of at most ``batch`` samples, waiting at most ``max_wait_us`` for a full one."""
        self.batch = batch
        self._max_wait_s = max_wait_us / 1e6
        self._waiting = Backlog()
        self._oldest_s = 0.0
        self._is_flushed = False
        self._is_closed = False
        self._changed = threading.Condition()

    def put(self, samples: Samples, reply: Reply) -> None:
        """Append samples. The first that wait wake a worker, and those that fill a batch: it takes all it can."""
        with self._changed:
            before = len(self._waiting)
            if not before:
                self._oldest_s = time.monotonic()
            self._waiting.add(samples, reply)
            self._is_flushed = False
            if not before or before < self.batch <= len(self._waiting):
                self._changed.notify()

    def flush(self) -> None:
        """Stop waiting for fuller batches until more samples come."""
        with self._changed:
            self._is_flushed = True
            self._changed.notify_all()

    def close(self) -> None:
        """Stop the workers; waiting samples stay unanswered."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def take(self) -> Batch | None:
        """Wait for the next batch; None when the queue was closed."""
        with self._changed:
            while not self._is_closed:
                if len(self._waiting) >= self.batch or (self._waiting and self._is_flushed):
                    return self._cut()
                wait_s = None
                if self._waiting:
                    wait_s = self._oldest_s + self._max_wait_s - time.monotonic()
                    if wait_s <= 0:
                        return self._cut()
                self._changed.wait(wait_s)
            return None

    def _cut(self) -> Batch:
        batch = self._waiting.cut(self.batch)
        self._oldest_s = time.monotonic()
        if self._waiting:
            self._changed.notify()
        return batch


def join_samples(parts: list[Samples]) -> Samples:
    """Return samples one after another; they must be of one dataset."""
    if len(parts) == 1:
        return parts[0]
    ids = list(chain.from_iterable([part.ids for part in parts]))
    indices = list(chain.from_iterable([part.indices for part in parts]))
    return Samples(ids, indices, parts[0].dataset)


def by_length(samples: Samples, lengths: Sequence[int]) -> Samples:
    """Return the samples sorted by length, the longest first: so the last batches are the short ones.

    Samples of one length keep their order.

    Args:
        samples: one at least.
        lengths: of each.
    """
    if min(lengths) == max(lengths):
        return samples
    return samples.at(sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True))


def passes(indices: Sequence[int]) -> list[range]:
    """Return the positions of each pass over the dataset: a new one begins where an index comes again.

    The samples of one query may be put in any order, those of a language model within one pass only.
    Source: MLPerf Inference v4.1 rules, "sorting samples within a query, not across dataset boundaries for LLMs".

    Args:
        indices: of the samples of a query, as it was issued.
    """
    starts, seen = [0], set[int]()
    for position, index in enumerate(indices):
        if index in seen:
            starts.append(position)
            seen.clear()
        seen.add(index)
    return [range(start, stop) for start, stop in pairwise([*starts, len(indices)])]


@dataclass(slots=True)
class BatchCounts:
    """Statistics of an engine, for the record. One worker writes at a time."""

    by_size: dict[int, int] = field(default_factory=dict)
    samples: int = 0
    padding: int = 0
    """Samples computed only to fill a batch."""
    busy_ns: int = 0
    """Time spent running batches, summed over workers."""
