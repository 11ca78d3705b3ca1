"""Makes the runs of a plan or of a search, and shows their progress."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from mlbench.cli.output import echo_line, echo_wrapped
from mlbench.cli.progress import ALONE, FollowedRun, Progress
from mlbench.discovery import Plugins
from mlbench.errors import StorageError
from mlbench.execution.lanes import Lane
from mlbench.planning.expected_times import KnownTimes, cost_of, newest_runs
from mlbench.planning.requests import ResolvedRequest
from mlbench.planning.run_plan import RunPlan
from mlbench.planning.suite import SharedRuns, later_runs, run_all
from mlbench.records.expected_cost import Basis, ExpectedTime
from mlbench.records.run_record import EXPORT, RunRecord
from mlbench.records.store.run_folder import make_results_folder
from mlbench.reports.console import one_line, problems
from mlbench.reports.preflight import preflight
from mlbench.reports.progress import RunPlace, RunProgress
from mlbench.running.lane_log import LanePlace
from mlbench.running.parallel_runs import run_on_lanes
from mlbench.running.runner import UnstoredRunError, run_benchmark
from mlbench.wire.progress import ProgressMessage

_SHOWS_ERRORS = ("load", "compile")
"""A run's first stages: they find mistakes in the request, before a run is made."""

_FIRST_EXPORT = "the first run exports the model's graphs, which takes about half a minute; later runs use the cache."


@dataclass(frozen=True, slots=True)
class ProgressingMaker:
    """Makes runs one after another, each with a progress line."""

    plugins: Plugins

    def __call__(self, request: ResolvedRequest, what: str, seconds: float) -> RunRecord:
        """Make a run; raises as `run_benchmark`."""
        now_s = time.monotonic()
        this = ExpectedTime(seconds=seconds, basis=Basis.NOTHING)
        place = RunPlace(number=1, of=1, this=this, others=ExpectedTime(seconds=0.0, basis=Basis.SAME))
        name = f"{request.workload} {request.backend}, {what}"
        run = RunProgress(name, place, began_s=now_s, first_began_s=now_s)
        with Progress() as shown, shown.follow(run) as progress:
            return run_benchmark(request, self.plugins, progress.on_progress)


def run_and_print(
    requests: Sequence[ResolvedRequest],
    plugins: Plugins,
    shared: SharedRuns | None = None,
    *,
    done: int = 0,
    lanes: Sequence[Lane] = (),
    is_quiet: bool = False,
    on_made: Callable[[int, RunRecord], None] = lambda number, record: None,
) -> list[RunRecord]:
    """Make runs one after another, or in parallel on lanes, print a line for each, and return those that are stored.

    Before the first of several runs warms up, a line says how long they take and how many were done before; an error in
    the request is found earlier and printed alone. ``on_made`` gets each run with its number, from 1. If quiet, only
    errors of runs are printed.
    """
    if requests:  # a folder that cannot be made is refused before anything is printed
        make_results_folder(requests[0].results)
    stored = newest_runs(requests[0].results) if requests else []
    is_told = (len(requests) > 1 or done) and not is_quiet
    runs = _Runs(
        requests=requests,
        plugins=plugins,
        shared=shared,
        times=KnownTimes([record for _, record in stored]),
        shown=Progress(is_quiet=is_quiet),
        lane_count=len(lanes) or 1,
        on_made=on_made,
        is_quiet=is_quiet,
        announcement=preflight(cost_of(requests, stored), done=done, lanes=len(lanes) or 1) if is_told else "",
    )
    if not requests:
        runs.announce()
    with runs.shown:
        if not lanes:
            return run_all(requests, runs.make, shared, runs.wait_for)
        return run_on_lanes(requests, lanes, runs.make, shared, runs.wait_for)


def run_one(request: ResolvedRequest, plugins: Plugins) -> RunRecord:
    """Make one of two runs that are made interleaved, and print a line for it.

    Raises:
        MlbenchError: it cannot be carried out, or not be stored.
    """
    if records := run_and_print([request], plugins):
        return records[0]
    raise StorageError("an interleaved run cannot be stored, so nothing can be compared.", hint="Free disk space.")


@dataclass(slots=True, kw_only=True)
class _Runs:
    """Runs that are made one after another, or on lanes; the duration of each improves the estimate for the rest."""

    requests: Sequence[ResolvedRequest]
    plugins: Plugins
    shared: SharedRuns | None
    times: KnownTimes
    shown: Progress
    lane_count: int
    on_made: Callable[[int, RunRecord], None]
    is_quiet: bool
    announcement: str
    """The line about all runs; empty once printed."""
    exporting: set[str] = field(default_factory=set)
    """Workloads whose export of graphs was announced."""
    began_s: float = field(default_factory=time.monotonic)

    def announce(self) -> None:
        """Print the line about all the runs, once."""
        with self.shown.paused():
            if self.announcement:
                echo_wrapped(self.announcement, 2, to_stderr=True)
                self.announcement = ""

    def wait_for(self, count: int) -> None:
        """Print that another process is making some of the runs."""
        self.announce()
        with self.shown.paused():
            echo_line(f"{count} runs are being made by another process: waiting for them.", to_stderr=True)

    def make(self, request: ResolvedRequest, number: int, place: LanePlace | None = None) -> RunRecord | None:
        """Make a run, and print a line about it; None, with an error printed, where it is not stored.

        Raises:
            MlbenchError: it cannot be carried out.
            TakenError: another process makes it, or has just stored it.
        """
        try:
            with self.shown.follow(self._progress(request, number), place.lane.number if place else ALONE) as progress:
                claim = self.shared.claim(request) if self.shared else None
                record = run_benchmark(
                    request,
                    self.plugins,
                    partial(self._on_progress, progress, request.workload),
                    claim=claim,
                    place=place,
                    later=later_runs(self.requests, number),
                )
        except UnstoredRunError as error:
            self.announce()
            with self.shown.paused():
                echo_line(one_line(error.record), to_stderr=True)
                echo_line(f"Error: {error} The record follows:", to_stderr=True)
                echo_line(error.record.model_dump_json(), to_stderr=True)
            return None
        self.announce()
        with self.shown.paused():
            self.times.add(record)
            self.on_made(number, record)
            if not self.is_quiet:
                echo_wrapped(one_line(record), 2, to_stderr=True)
            for problem in problems(record):
                echo_wrapped(f"  {problem}", 4, to_stderr=True)
        return record

    def _on_progress(self, progress: FollowedRun, workload: str, message: ProgressMessage) -> None:
        """Show a run's progress; the first one without an error prints the expected time of all."""
        if message.stage not in _SHOWS_ERRORS and self.announcement:
            self.announce()
        if message.stage == EXPORT and workload not in self.exporting and not self.is_quiet:
            self.exporting.add(workload)
            with self.shown.paused():
                echo_wrapped(f"{workload}: {_FIRST_EXPORT}", 2, to_stderr=True)
        progress.on_progress(message)

    def _progress(self, request: ResolvedRequest, number: int) -> RunProgress:
        place = RunPlace(
            number=number,
            of=len(self.requests),
            this=self.times.expect(request),
            others=self.times.expect_all(self.requests[number:]).spread(self.lane_count),
        )
        name = f"{request.workload} {request.backend} {request.scenario}"
        return RunProgress(name, place, began_s=time.monotonic(), first_began_s=self.began_s)


def how_to_go_on(plan: RunPlan, made: Collection[int]) -> str:
    """Return how many runs of a plan that was interrupted are stored, and how to make the others.

    Args:
        plan: the whole.
        made: the numbers of its requests whose runs are stored, from 1.
    """
    left = [request for number, request in enumerate(plan.requests, 1) if number not in made]
    stored = f"{plan.asked - len(left)} of {plan.asked} runs are stored"
    if not made or not left or plan.shared:
        return f"{stored}; repeat the command to make the others."
    values = {
        name: [list(dict.fromkeys(str(getattr(each, name)) for each in some)) for some in (left, plan.requests)]
        for name in ("workload", "backend", "scenario", "precision", "repeat")
    }
    fewer = {name: some for name, (some, every) in values.items() if len(some) < len(every)}
    if "repeat" not in fewer and len(left) == math.prod(len(some) for some, _ in values.values()):
        parts = [f"{' '.join(fewer.pop('workload'))} alone"] if "workload" in fewer else []
        parts += [" ".join(f"--{name} {value}" for name, some in fewer.items() for value in some)] if fewer else []
        return f"{stored}; to make the others, repeat the command with {' and '.join(parts)}."
    counted = Counter(f"{each.workload} {each.backend} {each.scenario}" for each in left)
    names = [f"{name} ({count} runs)" if count > 1 else name for name, count in counted.items()]
    return f"{stored}; not made: {', '.join(names)}."
