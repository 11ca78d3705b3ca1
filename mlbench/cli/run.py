"""``mlbench run``: measure, store, print."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mlbench.cli.completions import offer_backends, offer_scenarios, offer_workloads
from mlbench.cli.options import (
    PrecisionName,
    accuracy_option,
    entry_options,
    job_options,
    network_options,
    overrides_option,
    parallel_option,
    power_option,
    profile_option,
    results_option,
    tag_option,
    tier_option,
    weights_option,
)
from mlbench.cli.output import echo, echo_json, echo_line, echo_wrapped, terminal_width
from mlbench.contracts.precision import Precision
from mlbench.contracts.scenario import MOST_REPEATS

if TYPE_CHECKING:
    from mlbench.cli.progress import FollowedRun, LanesProgress, Progress
    from mlbench.cluster.demand import NetworkDemand
    from mlbench.discovery import Plugins
    from mlbench.execution.lanes import Lane
    from mlbench.lane_log import LanePlace
    from mlbench.records.job_spec import NetworkSpec
    from mlbench.records.run_record import RunRecord
    from mlbench.reports.progress import RunProgress
    from mlbench.requests import ResolvedRequest
    from mlbench.rules.entry_demand import EntryDemand
    from mlbench.run_plan import RunPlan
    from mlbench.schedulers.suite_job import JobDemand
    from mlbench.suite import SharedRuns

_SHOWS_ERRORS = ("load", "compile")
"""A run's first stages: whatever is wrong with the request is found there, and no run is made then."""

_OF_A_SUITE = (
    *("suite", "fresh", "overrides", "results", "parallel", "as_json"),
    *("scheduler", "cpus", "memory", "devices", "image", "claim"),
)
"""Options allowed with ``--suite``; the file has the rest."""


@click.command("run")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...", shell_complete=offer_workloads)
@click.option(
    "--backend",
    "backends",
    multiple=True,
    metavar="BACKEND",
    shell_complete=offer_backends,
    help="See `mlbench list`; may be given more than once.  [default: the best that runs here]",
)
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="SCENARIO",
    shell_complete=offer_scenarios,
    help="See `mlbench list`; may be given more than once.  [default: all that the rules define]",
)
@profile_option
@tier_option
@click.option(
    "--precision",
    "precisions",
    multiple=True,
    type=PrecisionName(),
    help="Precision to compute in; may be given more than once.  [default: the backend's first]",
)
@weights_option
@accuracy_option
@entry_options
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, MOST_REPEATS),
    default=1,
    show_default=True,
    help="Runs of each combination, interleaved; five or more let `mlbench compare` see small changes.",
)
@tag_option
@power_option
@network_options
@click.option("--suite", type=click.Path(path_type=Path), metavar="FILE", help="Make the runs of a suite file.")
@click.option("--fresh", is_flag=True, help="With --suite: make all its runs, not only those missing or failed.")
@job_options
@overrides_option
@results_option
@parallel_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of the records, and nothing else, to stdout.")
@click.pass_context
def command(
    context: click.Context,
    workloads: tuple[str, ...],
    backends: tuple[str, ...],
    scenarios: tuple[str, ...],
    profile: str,
    tier: str,
    precisions: tuple[Precision, ...],
    weights: str,
    wants_accuracy: bool,
    entry: EntryDemand,
    repeats: int,
    tag: str,
    power: str,
    network: NetworkSpec | None,
    suite: Path | None,
    fresh: bool,
    job: JobDemand | None,
    overrides: dict[str, str],
    results: Path,
    parallel: int,
    as_json: bool,
) -> int:
    """Measure each WORKLOAD on each backend in each scenario; every combination is a run.

    Without a workload all of them run, without a backend the best one that is available, without a scenario all
    that the rules define. Exit status: 0 when every run is valid and accurate, 1 otherwise, 2 for wrong usage.
    """
    from mlbench.contracts.workload import Profile, Weights
    from mlbench.discovery import Plugins
    from mlbench.errors import UsageError
    from mlbench.rules.tiers import Tier
    from mlbench.run_plan import plan_runs, plan_suite

    plugins = Plugins.discover()
    if suite:
        _refuse_besides_a_suite(context)
    if job and as_json:
        raise UsageError("--json is given together with --print.", hint="A job is printed, and no record.")
    how: dict[str, Any] = {"results": results, "overrides": overrides, "fresh": fresh, "parallel": parallel}
    if job:
        return _print_job(job, suite, plugins, **how)
    if suite:
        return _make_and_print(plan_suite(suite, plugins, **how), plugins, results, as_json)
    demand = None
    if network:
        demand, entry = _ask_nodes(network, entry, plugins)
        workloads, backends = workloads or (demand.nodes[0].workload,), backends or (demand.nodes[0].backend,)
    plan = plan_runs(
        plugins,
        workloads=workloads,
        backends=backends,
        scenarios=scenarios,
        precisions=precisions,
        repeats=repeats,
        parallel=parallel,
        profile=Profile(profile),
        tier=Tier(tier),
        weights=Weights(weights),
        wants_accuracy=wants_accuracy,
        entry=entry,
        overrides=overrides,
        results=results,
        tag=tag,
        power=power,
        network=demand,
    )
    for each in plan.undefined:
        echo_line(str(each), to_stderr=True)
    return _make_and_print(plan, plugins, results, as_json, has_chosen_backend=not backends)


def _ask_nodes(network: NetworkSpec, entry: EntryDemand, plugins: Plugins) -> tuple[NetworkDemand, EntryDemand]:
    """Return nodes that can answer a run, and what it is made for.

    Raises:
        UsageError: a node does not answer, or they differ.
    """
    from mlbench.cluster.demand import NetworkDemand, entry_over_network
    from mlbench.rules.own import rules_of

    demand = NetworkDemand.of_spec(network)
    return demand, entry_over_network(entry, rules_of(plugins.workload(demand.nodes[0].workload)))


def _refuse_besides_a_suite(context: click.Context) -> None:
    from mlbench.errors import UsageError

    given = [
        name
        for name in context.params
        if name not in _OF_A_SUITE and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    ]
    if given:
        raise UsageError(f"{given[0]} is given together with --suite.", hint="The suite file says what runs.")


def _print_job(demand: JobDemand, suite: Path | None, plugins: Plugins, **how: Any) -> int:
    """Print a job that makes the runs of a suite."""
    from mlbench.errors import UsageError
    from mlbench.schedulers.kubernetes import kubernetes_manifest
    from mlbench.schedulers.slurm import slurm_script
    from mlbench.schedulers.suite_job import plan_job

    if not suite:
        raise UsageError("--print is given without --suite.", hint="A job makes the runs of a suite file.")
    job = plan_job(suite, demand, plugins, **how)
    echo(slurm_script(job) if demand.scheduler == "slurm" else kubernetes_manifest(job, demand), newline=False)
    return 0


def _make_and_print(
    plan: RunPlan, plugins: Plugins, results: Path, as_json: bool, *, has_chosen_backend: bool = False
) -> int:
    """Make the runs of a plan that are missing, print all of them, and return the exit status."""
    done = plan.asked - len(plan.requests)
    records = [*plan.done, *run_and_print(plan.requests, plugins, plan.shared, done=done, lanes=plan.lanes)]
    _print(records, results, as_json)
    if has_chosen_backend and not as_json:
        _print_faster_backends(records, results)
    return 0 if records and len(records) >= plan.asked and all(record.is_good for record in records) else 1


def run_and_print(
    requests: Sequence[ResolvedRequest],
    plugins: Plugins,
    shared: SharedRuns | None = None,
    *,
    done: int = 0,
    lanes: Sequence[Lane] = (),
) -> list[RunRecord]:
    """Make runs one after another, or on lanes side by side, each with a line of its own; return those that are stored.

    Before the first of several warms up, a line says what they will take, and how many were done before; an error in
    the request, which is found earlier, comes alone.
    """
    from mlbench.cli.progress import LanesProgress
    from mlbench.expected_times import cost_of, newest_runs
    from mlbench.parallel_runs import run_on_lanes
    from mlbench.records.run_folder import make_results_folder
    from mlbench.reports.preflight import preflight
    from mlbench.suite import run_all

    if requests:  # a folder that cannot be made is refused before anything is printed
        make_results_folder(requests[0].results)
    stored = newest_runs(requests[0].results) if requests else []
    runs = _Runs(requests, plugins, shared, [record for _, record in stored])
    if len(requests) > 1 or done:
        runs.announcement = preflight(cost_of(requests, stored), done=done, lanes=len(lanes) or 1)
    if not requests:
        runs.announce()
    if not lanes:
        return run_all(requests, runs.make, shared, runs.wait_for)
    with LanesProgress() as shown:
        runs.show_lanes(shown, len(lanes))
        return run_on_lanes(requests, lanes, runs.make, shared, runs.wait_for)


class _Runs:
    """Runs that are made one after another, or on lanes; what one took is known to those after it."""

    def __init__(
        self,
        requests: Sequence[ResolvedRequest],
        plugins: Plugins,
        shared: SharedRuns | None,
        stored: Sequence[RunRecord],
    ) -> None:
        from mlbench.expected_times import KnownTimes

        self._requests = requests
        self._plugins = plugins
        self._shared = shared
        self._times = KnownTimes(stored)
        self._began_s = time.monotonic()
        self._lanes: LanesProgress | None = None
        self._lane_count = 1
        self._printing = threading.RLock()
        self.announcement = ""
        """A line about all the runs, until it is printed."""

    def show_lanes(self, shown: LanesProgress, count: int) -> None:
        """Show runs on so many lanes; each is made in a thread of its own."""
        self._lanes, self._lane_count = shown, count

    def announce(self) -> None:
        """Print the line about all the runs, once."""
        with self._alone():
            if self.announcement:
                echo_wrapped(self.announcement, 2, to_stderr=True)
                self.announcement = ""

    def wait_for(self, count: int) -> None:
        """Say that runs are being made elsewhere."""
        self.announce()
        with self._alone():
            echo_line(f"{count} runs are being made by another process: waiting for them.", to_stderr=True)

    def make(self, request: ResolvedRequest, number: int, place: LanePlace | None = None) -> RunRecord | None:
        """Make a run, and print a line about it; None where it is not stored, which is printed too.

        Raises:
            MlbenchError: it cannot be carried out.
            TakenError: another process makes it, or has just stored it.
        """
        from mlbench.reports.console import one_line, problems
        from mlbench.runner import UnstoredRunError, run_benchmark

        try:
            with self._shown(self._progress(request, number), place) as progress:
                claim = self._shared.claim(request) if self._shared else None
                record = run_benchmark(
                    request,
                    self._plugins,
                    partial(self._on_progress, progress),
                    claim=claim,
                    place=place,
                    later=self._requests[number:],
                )
        except UnstoredRunError as error:
            self.announce()
            with self._alone():
                echo_line(one_line(error.record), to_stderr=True)
                echo_line(f"Error: {error} This is the record:", to_stderr=True)
                echo_line(error.record.model_dump_json(), to_stderr=True)
            return None
        self.announce()
        with self._alone():
            self._times.add(record)
            echo_wrapped(one_line(record), 2, to_stderr=True)
            for problem in problems(record):
                echo_wrapped(f"  {problem}", 4, to_stderr=True)
        return record

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep runs on other lanes from printing meanwhile, and their progress off the terminal."""
        with self._printing, self._lanes.paused() if self._lanes else nullcontext():
            yield

    def _shown(self, run: RunProgress, place: LanePlace | None) -> AbstractContextManager[Progress | FollowedRun]:
        """Return what shows a run, alone or among those on other lanes."""
        from mlbench.cli.progress import Progress

        return self._lanes.follow(place.lane.number, run) if self._lanes and place else Progress(run)

    def _on_progress(self, progress: Progress | FollowedRun, message: Mapping[str, Any]) -> None:
        """Show a run's progress; the first run that has no error shows what all will take."""
        if message["stage"] not in _SHOWS_ERRORS and self.announcement:
            self.announce()
        progress.on_progress(message)

    def _progress(self, request: ResolvedRequest, number: int) -> RunProgress:
        from mlbench.reports.progress import RunPlace, RunProgress

        place = RunPlace(
            number=number,
            of=len(self._requests),
            this=self._times.expect(request),
            others=self._times.expect_all(self._requests[number:]).spread(self._lane_count),
        )
        name = f"{request.workload} {request.backend} {request.scenario}"
        return RunProgress(name, place, began_s=time.monotonic(), first_began_s=self._began_s)


def _print(records: Sequence[RunRecord], results: Path, as_json: bool) -> None:
    if as_json:
        echo_json("[" + ",".join(record.text() for record in records) + "]")
    elif records:
        from rich.console import Console

        from mlbench.reports.console import conditions, precision_table, table
        from mlbench.reports.text_table import WIDTH, print_line

        console = Console(width=terminal_width() or WIDTH)
        console.print(table(records, console.width))
        if len({record.precision for record in records}) > 1:
            console.print(precision_table(records))
        print_line(console, conditions(records))
        _print_backends(records, results)


def _print_backends(records: Sequence[RunRecord], results: Path) -> None:
    """Say how backends stand to each other, where several ran the same."""
    from mlbench.comparison.backends import compare_backends
    from mlbench.records.selection import runs_like
    from mlbench.reports.sides import backend_lines

    if len({record.backend for record in records}) > 1:
        compared = list(compare_backends(records, runs_like(results, records)))
        for line in backend_lines(compared, terminal_width()):
            echo_wrapped(line, 4)


def _print_faster_backends(records: Sequence[RunRecord], results: Path) -> None:
    """Say where an earlier run on another backend was faster than the one that was chosen because none was named."""
    from mlbench.comparison.backends import faster_backends
    from mlbench.records.index import folders_where
    from mlbench.records.reading import read_runs
    from mlbench.reports.units import quantity, three_digits

    for workload in dict.fromkeys(record.workload for record in records):
        ours = [record for record in records if record.workload == workload]
        for each in faster_backends(ours, read_runs(folders_where(results, workload=workload))):
            run, other = each.run, each.other
            speeds = [quantity(record.result.value, record.result.unit) for record in (other, run) if record.result]
            echo_wrapped(
                f"{run.workload} {run.scenario}: {other.backend} was {three_digits(each.ratio)} times as fast as "
                f"{run.backend} in an earlier run ({' against '.join(speeds)}): --backend {other.backend}",
                2,
            )
