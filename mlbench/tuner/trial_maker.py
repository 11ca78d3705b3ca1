"""Makes the runs of a search within its budget, but those that are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mlbench.planning.requests import ResolvedRequest
from mlbench.records.run_record import RunRecord
from mlbench.tuner.stored_trials import StoredTrials
from mlbench.tuner.tune_plan import AROUND_S


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
    stored: StoredTrials
    left_s: float
    """The rest of the budget."""
    made: int = 0
    """Runs that were made now; the others were stored."""

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
