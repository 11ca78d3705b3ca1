"""Tracks which samples are open, and the faults of their replies."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from mlbench.errors import one_line

_NAMED_FAULTS = 20

Query = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids of some samples, and their dataset indices. It is immutable, so the engine is given the same tuples."""


@dataclass(slots=True)  # not frozen, for what that costs: as `Samples`
class Closed:
    """Samples that were open until now: each must be reported to LoadGen."""

    ids: Sequence[int]
    indices: Sequence[int]

    def __len__(self) -> int:
        return len(self.ids)


class Ledger:
    """Tracks every sample from its issue to its one answer. All methods may be called from any thread.

    A query answered whole, the usual case for a fast engine, costs one entry in `whole` however many samples it has;
    only a query answered in parts is split.
    """

    def __init__(self) -> None:
        self.whole: dict[int, Query] = {}
        """Open queries of which nothing is answered, by their first id. Python's own lock guards each step on it."""
        self.issued = 0
        """How many samples were issued; written by the thread that issues."""
        self._parts: dict[int, int] = {}  # open samples of the other queries: id -> index
        self._lock = threading.Lock()
        self._faults: list[str] = []
        self._fault_count = 0

    def open(self, ids: tuple[int, ...], indices: tuple[int, ...]) -> None:
        """Note that these samples were issued."""
        self.whole[ids[0]] = ids, indices
        self.issued += len(ids)

    def close(self, ids: Sequence[int]) -> Closed:
        """Record an answer to these samples and return those that are open, in order."""
        if not ids:
            return Closed((), ())
        query = self.whole.get(ids[0])
        is_whole = query is not None and (query[0] is ids or query[0] == ids)
        if query and is_whole and self.whole.pop(ids[0], None) is not None:
            return Closed(*query)
        with self._lock:
            self._take_apart()
            parts = self._parts
            found = {id_: parts.pop(id_) for id_ in ids if id_ in parts}
        return Closed(tuple(found), tuple(found.values()))

    def close_if_open(self, ids: tuple[int, ...]) -> Closed:
        """Record an answer to these samples and return them; unless each is open, record and return none."""
        with self._lock:
            self._take_apart()
            parts = self._parts
            if len(parts.keys() & ids) != len(ids):
                return Closed((), ())
            return Closed(ids, tuple(map(parts.pop, ids)))

    def indices(self, ids: Sequence[int]) -> tuple[int, ...] | None:
        """Return the dataset indices of samples that all wait for their answer; None where one does not."""
        with self._lock:
            self._take_apart()
            parts = self._parts
            return tuple(parts[id_] for id_ in ids) if all(id_ in parts for id_ in ids) else None

    def has_more_open_than(self, count: int) -> bool:
        """Return whether more samples may wait for their answer; also where a query is open as a whole."""
        return bool(self.whole) or len(self._parts) > count

    def close_all(self) -> Closed:
        """Close all samples that wait for their answer, and return them."""
        with self._lock:
            self._take_apart()
            found, self._parts = self._parts, {}
        return Closed(tuple(found), tuple(found.values()))

    def answered(self) -> int:
        """Return how many samples were answered, soundly or not."""
        with self._lock:
            return self.issued - sum(len(ids) for ids, _ in list(self.whole.values())) - len(self._parts)

    def fault(self, indices: Sequence[object], reason: object) -> None:
        """Record that the replies to samples with these dataset indices were invalid, in one printable line each."""
        what = one_line(reason)
        self._note([f"sample {index}: {what}" for index in indices[:_NAMED_FAULTS]], len(indices))

    def fault_of_test(self, reason: object) -> None:
        """Record a fault that belongs to no sample."""
        self._note([one_line(reason)], 1)

    def faults(self) -> list[str]:
        """Return the faults in order of discovery, a line each; beyond the first ones only their number."""
        with self._lock:
            more = self._fault_count - len(self._faults)
            return [*self._faults, *([f"and {more} more"] if more else [])]

    def _note(self, lines: list[str], count: int) -> None:
        with self._lock:
            self._fault_count += count
            self._faults += lines[: max(0, _NAMED_FAULTS - len(self._faults))]

    def _take_apart(self) -> None:
        while self.whole:
            try:
                _, (ids, indices) = self.whole.popitem()
            except KeyError:  # another thread answered the last one just now
                return
            if len(ids) == 1:
                self._parts[ids[0]] = indices[0]
            else:
                self._parts.update(zip(ids, indices, strict=True))
