"""Groups runs by session, and finds interleaved ones: repeats of one session are not independent."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

SESSION_GAP = timedelta(hours=4)
"""A longer pause starts a new session: the machine's state before it says little about its state now."""

LEAST_PAIRS = 3
"""Fewer pairs are too few to estimate a spread."""


class Timed(Protocol):
    """Something that was measured at a known time: a record, or one of its numbers."""

    @property
    def run_id(self) -> str:
        """Name of its run; that of no other run."""

    @property
    def created(self) -> datetime:
        """Begin of the run."""

    @property
    def duration_ns(self) -> int | None:
        """Duration of the run; None counts as 0."""


class Tagged(Timed, Protocol):
    """The same, with a tag."""

    @property
    def tag(self) -> str:
        """Name of the set of runs that it belongs to."""


AnyTimed = TypeVar("AnyTimed", bound=Timed)
AnyTagged = TypeVar("AnyTagged", bound=Tagged)


def split_sessions(records: Sequence[AnyTimed]) -> list[list[AnyTimed]]:
    """Return the runs of each session, oldest first. Runs of different machines or workloads may be among them."""
    sessions: list[list[AnyTimed]] = []
    last_end: datetime | None = None
    for record in sorted(records, key=lambda record: record.created):
        if last_end is None or record.created - last_end > SESSION_GAP:
            sessions.append([])
        sessions[-1].append(record)
        last_end = max(last_end or _end(record), _end(record))
    return sessions


def newest_session(records: Sequence[AnyTimed]) -> list[AnyTimed]:
    """Return the runs of the newest session; empty for no runs."""
    sessions = split_sessions(records)
    return sessions[-1] if sessions else []


def newest_of_a_tag(records: Sequence[AnyTagged]) -> list[AnyTagged]:
    """Return the runs of the newest session that have the tag of the newest run; empty for no runs.

    A tag often names a commit, and a CI measures several of them in an afternoon.
    """
    session = newest_session(records)
    return [record for record in session if record.tag == session[-1].tag]


def split_tags(session: Sequence[AnyTagged]) -> list[list[AnyTagged]]:
    """Return a session's runs of each tag, in the order of each tag's first run."""
    tags: dict[str, list[AnyTagged]] = {}
    for record in session:
        tags.setdefault(record.tag, []).append(record)
    return list(tags.values())


def without_those_of(base: Sequence[AnyTimed], named: Sequence[AnyTimed]) -> list[AnyTimed]:
    """Return the named runs that are not the base's own; all of them where there are no others.

    A baseline saved from a tag an hour ago holds runs that the tag still finds, in one session with those made since.
    """
    known = {record.run_id for record in base}
    return [record for record in named if record.run_id not in known] or list(named)


def pairs_in_turns(base: Sequence[AnyTimed], new: Sequence[AnyTimed]) -> list[tuple[AnyTimed, AnyTimed]]:
    """Return neighbours in time, one of each side, if two sides were measured interleaved; else nothing.

    A B A B and A B B A are interleaved. The machine affects both runs of a pair alike, so its drift cancels out of the
    difference. A run whose partner is missing is left out; where that is more than one in three, the sides were not
    measured interleaved.
    """
    if len({record.run_id for record in (*base, *new)}) != len(base) + len(new):
        return []
    sides = [(record.created, side, record) for side, records in enumerate((base, new)) for record in records]
    in_time = [(side, record) for _, side, record in sorted(sides, key=lambda each: each[:2])]
    pairs, place = [], 0
    while place + 1 < len(in_time):
        (one_side, one), (other_side, other) = in_time[place : place + 2]
        if one_side != other_side and one.created < other.created <= _end(one) + SESSION_GAP:
            pairs.append((one, other) if one_side == 0 else (other, one))
            place += 1
        place += 1
    return pairs if 3 * len(pairs) >= len(in_time) else []


def _end(record: Timed) -> datetime:
    return record.created + timedelta(microseconds=(record.duration_ns or 0) / 1000)
