"""Progress of a run, alone and among others, and the time left: as text, at a given moment."""

from __future__ import annotations

from dataclasses import dataclass

from mlbench.records.expected_cost import Basis, ExpectedTime
from mlbench.reports.bars import bar
from mlbench.reports.plain_text import single_line
from mlbench.reports.preflight import spell_time
from mlbench.reports.units import number_of, rough_time
from mlbench.wire.load_progress import LoadProgress
from mlbench.wire.progress import ProgressMessage, Steps

_NOTED_FROM_S = 5.0
"""Duration after which a stage shows its elapsed time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """The place of a run among several."""

    number: int
    """Number of the run, from 1."""
    of: int
    this: ExpectedTime
    """Expected duration of the run."""
    others: ExpectedTime
    """Expected duration of the later runs."""


class RunProgress:
    """Follows a run by the messages of its process. Times are in seconds, from any clock."""

    def __init__(self, name: str, place: RunPlace, *, began_s: float, first_began_s: float) -> None:
        """Start with a run that just began; the first of several began at ``first_began_s``."""
        self._name = name
        self._place = place
        self._began_s = began_s
        self._first_began_s = first_began_s
        self._stage = "start"
        self._stage_began_s = began_s
        self._test: LoadProgress | None = None
        self._test_s = began_s
        self._step = ""
        self._filled = 0.0

    def on_progress(self, message: ProgressMessage, now_s: float) -> None:
        """Handle a message: its stage, and what it says of a test or a slow batch."""
        if message.stage != self._stage:
            self._stage, self._stage_began_s = message.stage, now_s
            self._test, self._step = None, ""
        if test := message.read(LoadProgress):
            self._test, self._test_s = test, now_s
        if steps := message.read(Steps):
            self._step = f"step {steps.done} of {steps.of}"

    def line(self, now_s: float) -> str:
        """Return all of it on one line: ``run 11 of 50, about 14 min left: bert pytorch Offline: compile``."""
        place = [] if self._place.of == 1 else [f"run {self._place.number} of {self._place.of}"]
        place += [f"{spell_time(left)} left"] if (left := self.left(now_s)) else []
        return single_line(": ".join([*([", ".join(place)] if place else []), self._describe_stage(now_s)]))

    def lines(self, now_s: float) -> list[str]:
        """Return it for a terminal: the place in the whole with a bar, then the stage."""
        left = self.left(now_s)
        place = f"run {self._place.number} of {self._place.of}"
        self._filled = max(self._filled, self._share(now_s, left))
        drawn = bar(self._filled)
        if drawn == bar(1.0):  # a full bar would say that it is over
            drawn = f"{rough_time(now_s - self._first_began_s)} so far,"
        return [f"{place} {drawn} {self._spell_left(left)}", single_line(self._describe_stage(now_s))]

    def stage(self, now_s: float) -> str:
        """Return the run's current stage, on one line: ``bert pytorch Offline: compile``."""
        return single_line(self._describe_stage(now_s))

    def left(self, now_s: float) -> ExpectedTime | None:
        """Return the time until the last run ends; None if it is unknown."""
        this, others = self._place.this, self._place.others
        run_left_s = this.seconds - (now_s - self._began_s)
        test_left_s = self._test_left_s(now_s)
        is_overdue = run_left_s <= 0  # by earlier runs, which then say nothing of what is left
        basis = max(Basis.NOTHING if is_overdue else this.basis, others.basis)
        seconds = others.seconds + max(run_left_s, test_left_s or 0.0)
        is_known = basis is not Basis.NOTHING or seconds >= 1
        return ExpectedTime(seconds=seconds, basis=basis) if is_known else None

    def _spell_left(self, left: ExpectedTime | None) -> str:
        if left:
            return f"{spell_time(left)} left"
        is_known = self._place.this.basis is not Basis.NOTHING
        return "it takes longer than earlier runs" if is_known else "time left not known yet"

    def _share(self, now_s: float, left: ExpectedTime | None) -> float:
        """Return the share that is done: of the time if it is known, else of the runs."""
        if left is None or Basis.NOTHING in (self._place.this.basis, self._place.others.basis):
            return (self._place.number - 1) / self._place.of
        passed_s = now_s - self._first_began_s
        return passed_s / (passed_s + left.seconds) if passed_s else 0.0

    def _test_left_s(self, now_s: float) -> float | None:
        if self._test is None or self._test.left_s is None:
            return None
        return max(0.0, self._test.left_s - (now_s - self._test_s))

    def _describe_stage(self, now_s: float) -> str:
        lasted_s = now_s - self._stage_began_s
        parts = [f"{self._name}: {self._stage}"]
        if self._test and self._test.counts.issued:
            parts += [self._describe_time_left(now_s), _samples(self._test)]  # the end of a line may be cut off
        elif lasted_s >= _NOTED_FROM_S:
            parts.append(f"{rough_time(lasted_s)} so far")
        return ", ".join([*parts, *([self._step] if self._step else [])])

    def _describe_time_left(self, now_s: float) -> str:
        left_s = self._test_left_s(now_s)
        if left_s is None:
            return "time left not known yet"
        return f"about {rough_time(left_s)} left" if left_s else "about to end"


def _samples(test: LoadProgress) -> str:
    """Return the number of answered samples, and the total if it ends the test."""
    answered = test.counts.answered
    is_counted = not test.demand.least_s or answered < test.samples
    of = f" of {number_of(test.samples)}" if is_counted else ""
    return f"{number_of(answered)}{of} samples"
