"""Assigns sequences to slots of the cache, with their positions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlbench.execution.generation.requests import Request


class Slots:
    """The slots of a cache, a sequence each; a sequence of several beams has as many rows of the cache.

    A slot is free, filling (its prompt waits to be read, or is being read) or running. A decode step computes all rows
    below the highest that runs, so that those which run should lie low: the lowest free slot is given first, and a
    request whose prompt is read only now moves below those that still wait.
    """

    def __init__(self, limit: int, beams: int) -> None:
        """Make free slots, ``limit`` of them."""
        self.limit = limit
        """How many may be taken; lowered when the cache cannot grow."""
        self.beams = beams
        self.requests: list[Request | None] = [None] * limit
        self.positions = np.zeros(limit * beams, np.int64)
        """By row: the column that its next token goes to. Of a row that keeps nothing: 0, where nothing is lost."""
        self.filling: list[int] = []
        """Those whose prompt is not read to its end, the oldest first."""
        self.running = np.zeros(0, np.int64)
        """Those that are decoded, ascending."""
        self.taken = 0

    @property
    def free(self) -> int:
        """How many more sequences there is room for."""
        return max(0, self.limit - self.taken)

    def next_free(self) -> int:
        """Return the slot that `take` gives next; there must be one."""
        return self.requests.index(None)

    def take(self, request: Request) -> int:
        """Give a request the lowest free slot, to read its prompt into."""
        slot = self.next_free()
        self.requests[slot] = request
        self.filling.append(slot)
        self.taken += 1
        return slot

    def settle(self, slots: list[int]) -> list[int]:
        """Give the requests in these slots, of whose prompts nothing is read yet, the lowest slots that hold nothing.

        Those that waited in them get these in return. Returns the new slots, in the order of the old ones.
        """
        empty = sorted({*self._list_free(), *(slot for slot in self.filling if not self.positions[slot * self.beams])})
        lowest = empty[: len(slots)]
        displaced = [slot for slot in lowest if slot not in slots]
        vacated = [slot for slot in slots if slot not in lowest]
        exchanged = dict(zip(vacated, displaced, strict=True)) | dict(zip(displaced, vacated, strict=True))
        for slot, other in zip(vacated, displaced, strict=True):
            self.requests[slot], self.requests[other] = self.requests[other], self.requests[slot]
        self.filling = [exchanged.get(slot, slot) for slot in self.filling]
        return [exchanged.get(slot, slot) for slot in slots]

    def run(self, slots: list[int]) -> None:
        """Mark slots whose prompts are read as running."""
        for slot in slots:
            self.filling.remove(slot)
        self.running = np.sort(np.concatenate([self.running, np.array(slots, np.int64)]))

    def request(self, slot: int) -> Request:
        """Return the request in a slot."""
        request = self.requests[slot]
        assert request is not None
        return request

    def release(self, slots: list[int]) -> list[Request]:
        """Free slots, and return their requests."""
        released = [self.request(slot) for slot in slots]
        for slot in slots:
            self.requests[slot] = None
            self.positions[slot * self.beams : (slot + 1) * self.beams] = 0
            if slot in self.filling:
                self.filling.remove(slot)
        self.taken -= len(slots)
        self.running = np.setdiff1d(self.running, slots, assume_unique=True)
        return released

    def list_held(self) -> list[int]:
        """Return all slots that are not free."""
        return [slot for slot, request in enumerate(self.requests) if request is not None]

    def _list_free(self) -> list[int]:
        return [slot for slot, request in enumerate(self.requests) if request is None]

    def moves(self) -> Iterator[tuple[int, int]]:
        """Yield (source, target) for running slots that should move to lower free slots, the highest first.

        Nothing moves unless it halves the rows that a step computes: each sequence then moves a few times at most,
        however many come and go. Each move must be carried out (`move`) before the next is asked for.
        """
        if not len(self.running) or 2 * step_up(self.taken) > step_up(int(self.running[-1]) + 1):
            return
        while (target := self.next_free()) < (source := int(self.running[-1])):
            yield source, target

    def move(self, source: int, target: int) -> None:
        """Move the running sequence of one slot to a free one."""
        beams = self.beams
        self.requests[target], self.requests[source] = self.requests[source], None
        self.positions[target * beams : (target + 1) * beams] = self.positions[source * beams : (source + 1) * beams]
        self.positions[source * beams : (source + 1) * beams] = 0
        self.running[self.running == source] = target
        self.running.sort()


def step_up(count: int) -> int:
    """Return the next of 1, 2, 3, 4, 6, 8, 12, 16, 20, ... 32, 40, ... 64, 72, ... 128, 144, ...

    Few sizes for a runtime to compile; and the larger a step, whose time grows with its rows, the fewer of them compute
    nothing: a fifth at most of more than 16, a ninth of more than 64.
    """
    power = 1 << max(0, count - 1).bit_length()
    parts = 4 if power <= 16 else 8 if power <= 64 else 16
    step = max(1, power // parts)
    return -(-count // step) * step
