"""The door that every parser of foreign bytes stands behind: a budget, and one place where its errors become a line.

A parser raises anything for bytes that somebody else chose, so nothing here lists what it may raise. What would hang or
fill the memory inside a library is counted before the library is asked: see `mlbench.system.documents.archives`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mlbench.errors import DataError, describe_error, first_line
from mlbench.system.documents.kinds import refusal
from mlbench.system.guards import convert_errors

DEPTH = 100
"""Arrays and tables inside each other, at most."""

DATA_BYTES = 1 << 34
"""The largest file of a data set that is read whole, and the most that is unpacked where nothing else is said."""


class BudgetSpentError(ValueError):
    """Reading a file would take more than its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most that reading one file may take."""

    bytes: int = DATA_BYTES
    """That come out of it, where it is packed."""
    members: int = 2_000_000
    nodes: int = 5_000_000
    """Values of a document; the largest official manifest has some hundred thousand."""
    depth: int = DEPTH
    seconds: float = 3600.0
    """Looked at between two pieces of the work, so a single call of a library may take longer."""


@dataclass(slots=True)
class Meter:
    """What was spent of a budget."""

    budget: Budget
    clock: Callable[[], float] = time.monotonic
    _spent: dict[str, int] = field(default_factory=lambda: {"bytes": 0, "members": 0, "nodes": 0})
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self._began = self.clock()

    def spend(self, what: str, count: int = 1) -> None:
        """Count ``bytes``, ``members`` or ``nodes`` before they are made; raises `BudgetSpentError`."""
        self._spent[what] += count
        most = getattr(self.budget, what)
        if self._spent[what] > most:
            raise BudgetSpentError(f"it would expand too far: to more than {most} {what}")
        if self.clock() - self._began > self.budget.seconds:
            raise BudgetSpentError(f"reading it takes longer than {self.budget.seconds:.0f} s")

    def reach(self, depth: int) -> None:
        """Raise `BudgetSpentError` where something lies too deep inside other things."""
        if depth > self.budget.depth:
            raise BudgetSpentError(f"it nests deeper than {self.budget.depth} levels")


@contextmanager
def foreign(
    origin: Path | str, failure: str, *, budget: Budget | None = None, hint: str = "", path: Path | None = None
) -> Iterator[Meter]:
    """Let a parser read foreign bytes: whatever it raises becomes a `DataError` that names the file and the reason.

    Args:
        origin: the file, as a user knows it.
        failure: what to say of it before the reason: ``is not a gzip file``.
        budget: of the parser, which spends it; the usual one where none is given.
        hint: what to do, where the file is not something else altogether.
        path: of the file, where its origin does not say it.

    Raises:
        DataError: anything but a `MlbenchError` was raised inside; that passes as it is.
    """

    def refuse(error: Exception) -> DataError:
        place = origin if isinstance(origin, Path) else path
        message = f"{origin} {failure}: {reason_of(error)}."
        return refusal(place, message, hint=hint) if place else DataError(message, hint=hint)

    with convert_errors(refuse):
        yield Meter(budget or Budget())


def reason_of(error: Exception) -> str:
    """Return the reason why a parser failed, as a clause: `ValueError`'s message, else that the file is damaged."""
    if isinstance(error, RecursionError):
        return "it nests too deep"
    if isinstance(error, MemoryError):
        return "reading it would take more memory than there is"
    if isinstance(error, OSError):
        return error.strerror or first_line(error)
    return first_line(error) if isinstance(error, ValueError) else f"it is damaged ({describe_error(error)})"
