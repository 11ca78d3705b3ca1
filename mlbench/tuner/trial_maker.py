"""Makes the runs of a search within its budget, but those that are stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import Protocol

from mlbench.errors import MlbenchError
from mlbench.planning.requests import ResolvedRequest
from mlbench.records.environment import Environment, observe_environment
from mlbench.records.facts import KIND
from mlbench.records.run_record import RunRecord
from mlbench.records.store.reading import read_all
from mlbench.records.store.run_names import has_record, names_in
from mlbench.running.turns import why_not_again
from mlbench.tuner.tune_plan import AROUND_S

_KIND = (*KIND, "tag", "repeat")


class StoredTrials:
    """The runs of results folders, read when they are first asked for."""

    def __init__(self, *, fresh: bool = False) -> None:
        """With ``fresh``, know none."""
        self._fresh = fresh
        self._environment: Environment | None = None
        self._records: dict[tuple[Path, str], Sequence[RunRecord]] = {}

    def find(self, request: ResolvedRequest) -> RunRecord | None:
        """Return the newest completed run of a request that was made as it would be made now."""
        if self._fresh:
            return None
        if self._environment is None:
            self._environment = observe_environment()
        plain = request.settings.plain()
        for record in self._of(request):
            is_like = all(str(getattr(record, name)) == str(getattr(request, name)) for name in _KIND)
            if is_like and {key: each.value for key, each in record.settings.items()} == plain:
                if not why_not_again(record, self._environment):
                    return record
        return None

    def _of(self, request: ResolvedRequest) -> Sequence[RunRecord]:
        """Return the completed runs whose ids name the same workload, backend and scenario, newest first."""
        names = (request.workload, request.backend, request.scenario)
        part = "".join("-" + re.sub(r"[^\w.+-]", "_", name) for name in names)  # as `new_run_id` spells them
        key = (request.results, part)
        if key not in self._records:
            folders = [request.results / name for name in _names(request.results) if f"{part}-" in name]
            records, _ = read_all(folder for folder in folders if has_record(folder))
            self._records[key] = [each for each in records if each.status == "completed"]
        return self._records[key]


def _names(results: Path) -> list[str]:
    try:
        return sorted(names_in(results), reverse=True)
    except MlbenchError:  # storing a run there will say so
        return []


class RunMaker(Protocol):
    """Makes a run."""

    def __call__(self, request: ResolvedRequest, what: str, seconds: float) -> RunRecord:
        """Make a run that is expected to send queries for so long; ``what`` says what it is for."""


class OverBudgetError(Exception):
    """A run would probably end later than the search may."""


@dataclass(slots=True)
class TrialMaker:
    """Makes runs one after another, as long as there is time."""

    make: RunMaker
    left_s: float = float("inf")
    """The rest of the budget: no run is begun that would probably end later."""
    fresh: InitVar[bool] = False
    """Use no stored runs."""
    stored: StoredTrials = field(init=False)
    made: int = 0
    """Runs that were made now; the others were stored."""

    def __post_init__(self, fresh: bool) -> None:
        self.stored = StoredTrials(fresh=fresh)

    def record(self, request: ResolvedRequest, what: str, seconds: float) -> tuple[RunRecord, bool]:
        """Return the stored run of a request, or make it; and whether it was stored.

        Args:
            request: the run.
            what: what it is for.
            seconds: how long it is expected to send queries.

        Raises:
            OverBudgetError: there is no time to make it.
            MlbenchError: as `run_benchmark`.
        """
        record = self.stored.find(request)
        if record is not None:
            return record, True
        if seconds + AROUND_S > self.left_s:
            raise OverBudgetError
        record = self.make(request, what, seconds)
        self.made += 1
        self.left_s -= (record.duration_ns or 0) / 1e9
        return record, False
