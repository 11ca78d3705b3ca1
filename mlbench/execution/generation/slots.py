"""Which sequence holds which slot of the cache, and its position."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlbench.execution.generation.requests import Request


class Slots:
    """The slots of a cache, a sequence each; a sequence of several beams has as many rows of the cache.

    A slot is free, filling (its prompt is being read) or running. The lowest free slot is given first, so that those
    taken lie close together: a decode step computes all rows below the highest that runs.
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
        """Those that read their prompt, the oldest first."""
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
    """Return the next of 1, 2, 3, 4, 6, 8, 12, 16, ...: few sizes for a runtime to compile, and none much too large."""
    power = 1 << max(0, count - 1).bit_length()
    return power * 3 // 4 if power >= 4 and count <= power * 3 // 4 else power
