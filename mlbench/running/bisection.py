"""Makes the runs of a bisection, and keeps them, so that a repeated command continues with them."""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from mlbench.comparison.bisection import (
    NEIGHBOURS_WITHIN,
    Bisected,
    Rule,
    Seen,
    Tried,
    VersionMark,
    differ,
    difference,
    judge,
    least_seen,
    mean_value,
    next_place,
    next_run,
    pairs_among,
    ratio_of,
    reading_of,
    suspects,
)
from mlbench.comparison.measures import Measure
from mlbench.errors import DataError, MlbenchError, UsageError
from mlbench.planning.requests import RunRequest
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import make_results_folder, runs_in
from mlbench.records.store.whole_file import write_whole
from mlbench.running.installations import Installations
from mlbench.running.turns import arguments_of
from mlbench.system.documents import first_problem, read_json

FOLDER, RUNS, STATE_FILE = ".bisect", "runs", "bisect.json"
"""In the results folder, hidden, so that its runs are not part of a history; and in the folder of a bisection."""


class State(BaseModel):
    """What the records of a bisection do not tell: the content of `STATE_FILE`."""

    model_config = ConfigDict(frozen=True)

    versions: tuple[str, ...] = ()
    """For people who read the file: the name of each, the good end first."""
    skipped: dict[int, str] = {}
    """By place, why a version could not be measured."""


class _ReadRun(NamedTuple):
    place: int
    record: RunRecord
    reading: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Notices:
    """Is told what a bisection does."""

    on_run: Callable[[int, RunRecord], None] = lambda place, record: None
    """The place of a version, and its run."""
    on_verdict: Callable[[int, Tried], None] = lambda place, tried: None
    on_step: Callable[[float], None] = lambda seconds: None
    """The ends differ; a run takes so long."""
    on_doubt: Callable[[], None] = lambda: None
    """The version that was found does not differ from the one before it: all are looked at once more."""


@dataclass(slots=True, kw_only=True)
class Bisection:
    """A bisection in its folder."""

    installations: Installations
    request: RunRequest
    """The request of each run; its results folder holds the bisection's."""
    measure: str
    rule: Rule
    told: Notices = field(default_factory=Notices)
    _runs: list[_ReadRun] = field(default_factory=list)
    """Those that count, as they were made."""
    _groups: list[Sequence[float]] = field(default_factory=list)
    """The differences by which each version was judged so far."""
    _seen: dict[int, Seen] = field(default_factory=dict)
    """What each version was judged by."""
    _unread: dict[int, str] = field(default_factory=dict)
    """By place, why a run lacks the number; by another measure it may count, so the state does not keep this."""
    _state: State = field(default_factory=State)

    @property
    def folder(self) -> Path:
        """The folder of this question: the same versions, and the same request."""
        asked = [*self.installations.key, *arguments_of(replace(self.request, tag="", results=Path("/")))]
        key = hashlib.sha256("\n".join(asked).encode(errors="backslashreplace")).hexdigest()[:12]
        return self.request.results / FOLDER / key

    def run(self) -> Bisected:
        """Measure versions until the first bad one is found, or none is left that could be judged.

        Raises:
            UsageError: an end cannot be measured, or another process works on the same question.
        """
        make_results_folder(self.folder)
        with _hold(self.folder):
            self._state = read_state(self.folder / STATE_FILE)
            self._read_stored()
            found = self._search()
            self.installations.done_with(0, self.folder)
        return found

    def count_stored(self) -> int:
        """Return how many runs are stored."""
        return len(runs_in(self.folder / RUNS))

    def _search(self) -> Bisected:
        last = len(self.installations.versions) - 1
        end, seen = self._try(last, None)
        known = {0: Tried(mark=VersionMark.GOOD), last: end}
        has_step = end.mark is VersionMark.BAD
        if has_step and seen:
            self.told.on_step(self._usual_seconds())
            found = self._narrow(known, seen.mean)
            known = found if self._is_sure(found) else self._narrow_strictly(known, found, seen.mean)
        known[0] = self._describe(0, VersionMark.GOOD, 0.0)
        good = self._runs_of(0)[0].reading
        return Bisected(
            versions=self.installations.versions,
            tried=dict(sorted(known.items())),
            measure=good.name,
            unit=good.unit,
            detectable=least_seen(seen, self.rule) if seen and not has_step else None,
        )

    def _narrow(self, ends: Mapping[int, Tried], step: float) -> dict[int, Tried]:
        """Try versions between the ends until none is left that could be judged."""
        known = dict(ends)
        while (place := next_place({place: each.mark for place, each in known.items()})) is not None:
            known[place], _ = self._try(place, step)
        return known

    def _is_sure(self, known: Mapping[int, Tried]) -> bool:
        """Return whether the version that was found differs from the one before it; true where several are left."""
        *others, bad = suspects({place: each.mark for place, each in known.items()})
        if others or bad == 1 or self.rule.is_exact:
            return True
        return differ(self._seen[bad], self._seen[bad - 1])

    def _narrow_strictly(self, ends: Mapping[int, Tried], found: Mapping[int, Tried], step: float) -> dict[int, Tried]:
        """Look at the versions once more, where the number changed in parts; what was made counts again."""
        self.told.on_doubt()
        self.rule, self._groups = replace(self.rule, is_strict=True), self._groups[:1]
        doubted = {
            place: replace(each, mark=VersionMark.CANNOT_TELL) for place, each in found.items() if not each.reason
        }
        return {**found, **doubted, **self._narrow(ends, step)}

    def _try(self, place: int, step: float | None) -> tuple[Tried, Seen | None]:
        """Measure a version until it has a verdict or is skipped; ``step`` as of `judge`.

        A run whose partner comes too late makes no pair, so that more runs are made than pairs: at most twice as many.
        """
        mark, seen = None, None
        for _ in range(4 * self.rule.most + 1):
            found = self._differences(place)
            mark, seen = judge([*self._groups, found], self.rule, step)
            if mark:
                break
            reason = "" if step is None else self._state.skipped.get(place) or self._unread.get(place, "")
            if reason := reason or self._make_next(place, is_end=step is None):
                return self._skip(place, reason), None
        if seen:
            self._groups.append(found[: seen.pairs])
            self._seen[place] = seen
        tried = self._describe(place, mark or VersionMark.CANNOT_TELL, seen.mean if seen else None)
        self.installations.done_with(place, self.folder)
        self.told.on_verdict(place, tried)
        return tried, seen

    def _skip(self, place: int, reason: str) -> Tried:
        """Note that a version cannot be measured; a repeated command does not try it again."""
        if place not in self._unread:
            names = tuple(version.name for version in self.installations.versions)
            self._state = State(versions=names, skipped={**self._state.skipped, place: reason})
            write_whole(self.folder / STATE_FILE, self._state.model_dump_json(indent=2))
        self.installations.done_with(place, self.folder)
        tried = self._describe(place, VersionMark.SKIPPED, None, reason)
        self.told.on_verdict(place, tried)
        return tried

    def _make_next(self, place: int, *, is_end: bool) -> str:
        """Make the next run for a version; return the reason where it cannot be measured.

        Raises:
            UsageError: an end cannot be measured.
        """
        which = place
        try:
            self.installations.command(place, self.folder)  # it may take long, so it comes before a pair and not in it
            which = self._next(place)
            command = self.installations.command(which, self.folder)
            record = command.run(replace(self.request, results=self.folder / RUNS, tag=_tag(which)))
            self.told.on_run(which, record)
            reason = self._take_in(which, record)
        except MlbenchError as error:
            reason = error.message.removesuffix(".")
        if reason:
            if which == place and not is_end:
                return reason
            name = self.installations.versions[which].name
            raise UsageError(f"{name} cannot be measured: {reason}.", hint="Both ends must run.")
        return ""

    def _next(self, place: int) -> int:
        if self.rule.is_exact:
            return place if self._runs_of(0) else 0
        return next_run([run and run.place for run in self._line()], place)

    def _differences(self, place: int) -> list[float]:
        """Return how much better each run of a version is than its neighbour of the good end."""
        line = self._line()
        if self.rule.is_exact:
            pairs = list(zip(self._runs_of(0)[:1], self._runs_of(place)[:1], strict=False))
        else:
            found = pairs_among([run and run.place for run in line], place)
            pairs = [(good, other) for one, two in found if (good := line[one]) and (other := line[two])]
        return [difference(good.reading, other.reading, self.rule) for good, other in pairs]

    def _line(self) -> list[_ReadRun | None]:
        """Return the runs as they were made, with None in each pause."""
        line: list[_ReadRun | None] = []
        for run in self._runs:
            if line and line[-1] and run.record.created - _end(line[-1].record) > NEIGHBOURS_WITHIN:
                line.append(None)
            line.append(run)
        return line

    def _runs_of(self, place: int) -> list[_ReadRun]:
        return [run for run in self._runs if run.place == place]

    def _describe(self, place: int, mark: VersionMark, mean: float | None, reason: str = "") -> Tried:
        values = [run.reading.value for run in self._runs_of(place)]
        return Tried(
            mark=mark,
            runs=len(values),
            value=mean_value(values, self.rule),
            ratio=None if mean is None else ratio_of(mean, self.rule),
            reason=reason,
        )

    def _usual_seconds(self) -> float:
        times = [(run.record.duration_ns or 0) / 1e9 for run in self._runs]
        return sum(times) / len(times)

    def _read_stored(self) -> None:
        """Take in the runs of an earlier command, oldest first."""
        places = {_tag(place): place for place in range(len(self.installations.versions))}
        records = []
        for folder in runs_in(self.folder / RUNS):
            with suppress(DataError):
                records.append(read(folder))
        for record in sorted(records, key=lambda record: record.created):
            if record.tag in places:
                self._take_in(places[record.tag], record)

    def _take_in(self, place: int, record: RunRecord) -> str:
        """Add a run to those that count; return the reason where it does not."""
        try:
            self._runs.append(_ReadRun(place, record, reading_of(record, self.measure)))
        except ValueError as error:
            self._unread[place] = str(error)
            return str(error)
        return ""


def _tag(place: int) -> str:
    return f"bisect-{place}"


def _end(record: RunRecord) -> datetime:
    return record.created + timedelta(microseconds=(record.duration_ns or 0) / 1000)


def read_state(file: Path) -> State:
    """Return what an earlier command noted; nothing where it noted nothing.

    Raises:
        DataError: it is no such file.
    """
    if not os.path.lexists(file):
        return State()
    try:
        return State.model_validate(read_json(file, what="state of a bisection", hint="Remove the file."))
    except ValidationError as error:
        raise DataError(f"{file}: {first_problem(error)}.", hint="Remove the file.") from None


@contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; the kernel releases it when the process ends, however it ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"another mlbench bisect works on {folder}.", hint="Wait until it is finished.") from None
    finally:
        os.close(descriptor)
