"""The runs of a bisection in its folder, as they were made, and which versions could not be measured."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from mlbench.comparison.bisection import difference, reading_of
from mlbench.comparison.bisection_order import NEIGHBOURS_WITHIN, next_run, pairs_among
from mlbench.comparison.measures import Measure
from mlbench.errors import DataError
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.run_folder import runs_in
from mlbench.records.store.whole_file import write_whole
from mlbench.system.documents import first_problem, read_json

RUNS, STATE_FILE = "runs", "bisect.json"
"""In the folder of a bisection."""


class BisectionState(BaseModel):
    """What the records of a bisection do not tell: the content of `STATE_FILE`."""

    model_config = ConfigDict(frozen=True)

    versions: tuple[str, ...] = ()
    """For people who read the file: the name of each, the good end first."""
    skipped: dict[int, str] = {}
    """By place, why a version could not be measured."""


class KeptRun(NamedTuple):
    """A run that counts."""

    place: int
    record: RunRecord
    reading: Measure


@dataclass(slots=True, kw_only=True)
class KeptRuns:
    """All that is known of the versions so far."""

    folder: Path
    versions: tuple[str, ...]
    """The name of each, the good end first."""
    measure: str
    is_exact: bool
    """Whether one run of each version is enough, so that there are no pairs."""
    _runs: list[KeptRun] = field(default_factory=list)
    """As they were made."""
    _unread: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By place, why runs lack the number; by another measure they may count, so the state does not keep this."""
    _state: BisectionState = field(default_factory=BisectionState)

    @property
    def results(self) -> Path:
        """The results folder of the runs."""
        return self.folder / RUNS

    def count_stored(self) -> int:
        """Return how many runs are stored."""
        return len(runs_in(self.results))

    def load(self) -> None:
        """Take in what an earlier command left; raises as `read_state`."""
        self._state = read_state(self.folder / STATE_FILE)
        places = {tag_of(place): place for place in range(len(self.versions))}
        records = []
        for folder in runs_in(self.results):
            with suppress(DataError):
                records.append(read(folder))
        for record in sorted(records, key=lambda record: record.created):
            if record.tag in places:
                self.take_in(places[record.tag], record)

    def take_in(self, place: int, record: RunRecord) -> str:
        """Add a run to those that count; return the reason where it does not, nor another of this version did.

        One such run is no reason yet: a machine may have been busy, and a first run does what later ones need not.
        """
        try:
            self._runs.append(KeptRun(place, record, reading_of(record, self.measure)))
        except ValueError as error:
            self._unread[place].append(str(error))
            return self._why_unread(place)
        return ""

    def why_skipped(self, place: int) -> str:
        """Return the reason why a version cannot be measured; empty as long as there is none."""
        return self._state.skipped.get(place, "") or self._why_unread(place)

    def _why_unread(self, place: int) -> str:
        reasons = self._unread[place]
        return reasons[-1] if len(reasons) > 1 else ""

    def note_skipped(self, place: int, reason: str) -> None:
        """Note that a version cannot be measured, so that a repeated command does not try it again."""
        if not self._why_unread(place):
            self._state = BisectionState(versions=self.versions, skipped={**self._state.skipped, place: reason})
            write_whole(self.folder / STATE_FILE, self._state.model_dump_json(indent=2))

    def of(self, place: int) -> list[KeptRun]:
        """Return the runs of a version."""
        return [run for run in self._runs if run.place == place]

    def next_of(self, place: int) -> int:
        """Return the place whose run comes next, for a version that has no verdict yet."""
        if self.is_exact:
            return place if self.of(0) else 0
        return next_run([run and run.place for run in self._line()], place)

    def differences(self, place: int) -> list[float]:
        """Return how much better each run of a version is than its neighbour of the good end."""
        line = self._line()
        if self.is_exact:
            pairs = list(zip(self.of(0)[:1], self.of(place)[:1], strict=False))
        else:
            found = pairs_among([run and run.place for run in line], place)
            pairs = [(good, other) for one, two in found if (good := line[one]) and (other := line[two])]
        return [difference(good.reading, other.reading, is_exact=self.is_exact) for good, other in pairs]

    def _line(self) -> list[KeptRun | None]:
        """Return the runs as they were made, with None in each pause."""
        line: list[KeptRun | None] = []
        for run in self._runs:
            if line and line[-1] and run.record.created - _end(line[-1].record) > NEIGHBOURS_WITHIN:
                line.append(None)
            line.append(run)
        return line

    def usual_seconds(self) -> float:
        """Return how long a run takes; there is one."""
        times = [(run.record.duration_ns or 0) / 1e9 for run in self._runs]
        return sum(times) / len(times)


def tag_of(place: int) -> str:
    """Return the tag of a version's runs."""
    return f"bisect-{place}"


def _end(record: RunRecord) -> datetime:
    return record.created + timedelta(microseconds=(record.duration_ns or 0) / 1000)


def read_state(file: Path) -> BisectionState:
    """Return what an earlier command noted; nothing where it noted nothing.

    Raises:
        DataError: it is no such file.
    """
    if not os.path.lexists(file):
        return BisectionState()
    try:
        return BisectionState.model_validate(read_json(file, what="state of a bisection", hint="Remove the file."))
    except ValidationError as error:
        raise DataError(f"{file}: {first_problem(error)}.", hint="Remove the file.") from None
