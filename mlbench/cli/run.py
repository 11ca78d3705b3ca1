"""``mlbench run``: make runs, store and print them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from mlbench.cli import options
from mlbench.cli.axis_options import axis_options, repeats_option
from mlbench.cli.budget import TimeForTurns, until_sure_options
from mlbench.cli.completions import offer_workloads
from mlbench.cli.model_options import model_options
from mlbench.cli.output import echo, echo_json, echo_line, echo_wrapped, terminal_width
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.reports.units import quantity, three_digits

if TYPE_CHECKING:
    from mlbench.comparison.backends import FasterBackend
    from mlbench.planning.run_plan import RunMatrix, RunPlan
    from mlbench.planning.schedulers.suite_job import JobDemand
    from mlbench.records.job_spec import NetworkSpec
    from mlbench.records.run_record import RunRecord

_OF_A_SUITE = (
    *("suite", "fresh", "overrides", "results", "parallel", "as_json", "is_quiet"),
    *("scheduler", "cpus", "memory", "devices", "image", "claim"),
)
"""Options allowed with ``--suite``; the file sets the rest."""


@click.command("run")
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...", shell_complete=offer_workloads)
@model_options
@axis_options(
    backend="the fastest in earlier runs, or the best available",
    scenario="all that the rules define; of your own model Offline",
    precision="the backend's first",
    transform="applied in order",
)
@options.profile_option
@options.tier_option
@options.weights_option
@options.accuracy_option
@options.round_option
@options.entry_options
@repeats_option
@options.tag_option
@options.power_option
@options.network_options
@click.option("--suite", type=click.Path(path_type=Path), metavar="FILE", help="Make the runs of a suite file.")
@click.option("--fresh", is_flag=True, help="With --suite: make all its runs, not only those missing or failed.")
@options.job_options
@options.overrides_option
@options.results_or_out_option
@options.parallel_option
@options.quiet_option
@until_sure_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of the records, and nothing else, to stdout.")
@click.pass_context
def command(
    context: click.Context,
    /,
    network: NetworkSpec | None,
    suite: Path | None,
    fresh: bool,
    job: JobDemand | None,
    is_quiet: bool,
    until: TimeForTurns | None,
    as_json: bool,
    **matrix_fields: Any,
) -> int:
    """Measure each WORKLOAD on each backend in each scenario; every combination is a run.

    Without a workload all of them run, without a scenario all that the rules define. Without a backend the best
    available one runs, or one that earlier runs on this machine showed to be faster. Exit status: 0 when every run is
    valid and accurate, 1 otherwise, 2 for wrong usage.
    """
    from mlbench.planning.run_plan import RunMatrix, plan_runs, plan_suite
    from mlbench.planning.suite import read_suite

    plugins, matrix = Plugins.discover(), RunMatrix(**matrix_fields)
    if suite:
        _refuse_besides_a_suite(context)
    if until:
        _refuse_besides_until_sure(matrix, network, as_json)
    if job and as_json:
        raise UsageError("--json is given together with --print.", hint="--print prints a job and no records.")
    printed = Printed(results=matrix.results, as_json=as_json, is_quiet=is_quiet, until=until)
    how: dict[str, Any] = {name: getattr(matrix, name) for name in ("results", "overrides", "parallel")}
    if job:
        return _print_job(job, suite, plugins, fresh=fresh, **how)
    if suite:
        return make_and_print(plan_suite(read_suite(suite), plugins, fresh=fresh, **how), plugins, printed)
    if network:
        matrix = _on_nodes(matrix, network, plugins)
    plan = plan_runs(matrix, plugins)
    for each in plan.undefined:
        echo_line(str(each), to_stderr=True)
    if plan.ranked and not is_quiet:
        _print_choice(plan)
    return make_and_print(plan, plugins, replace(printed, has_chosen_backend=not matrix.backends))


def _on_nodes(matrix: RunMatrix, network: NetworkSpec, plugins: Plugins) -> RunMatrix:
    """Return the same runs, answered by nodes, for the entry that these allow.

    Raises:
        UsageError: a node does not answer, or they differ.
    """
    from mlbench.cluster.demand import NetworkDemand, entry_over_network
    from mlbench.rules.official import round_named
    from mlbench.rules.own import rules_of

    demand = NetworkDemand.of_spec(network)
    node = demand.nodes[0]
    return replace(
        matrix,
        workloads=matrix.workloads or (node.workload,),
        backends=matrix.backends or (node.backend,),
        entry=entry_over_network(matrix.entry, rules_of(plugins.workload(node.workload), round_named(matrix.round))),
        network=demand,
    )


def _refuse_besides_a_suite(context: click.Context) -> None:
    given = [
        name
        for name in context.params
        if name not in _OF_A_SUITE and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise UsageError(f"{given[0]} is given together with --suite.", hint="The suite file sets it.")


def _refuse_besides_until_sure(matrix: RunMatrix, network: NetworkSpec | None, as_json: bool) -> None:
    if len(set(matrix.backends)) < 2:
        raise UsageError("--until-sure is given without two backends.", hint="Give --backend twice, or more often.")
    if network:
        raise UsageError("--until-sure is given together with --network.", hint="Runs on nodes cannot be repeated.")
    if as_json:
        hint = "`mlbench compare` has both."
        raise UsageError("--until-sure is given together with --json, which prints records.", hint=hint)


def _print_job(demand: JobDemand, suite: Path | None, plugins: Plugins, **how: Any) -> int:
    """Print a job that makes the runs of a suite."""
    from mlbench.planning.schedulers.kubernetes import kubernetes_manifest
    from mlbench.planning.schedulers.slurm import slurm_script
    from mlbench.planning.schedulers.suite_job import plan_job

    if not suite:
        raise UsageError("--print is given without --suite.", hint="A job makes the runs of a suite file.")
    job = plan_job(suite, demand, plugins, **how)
    echo(slurm_script(job) if demand.scheduler == "slurm" else kubernetes_manifest(job, demand), newline=False)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """How runs are printed."""

    results: Path
    as_json: bool
    is_quiet: bool
    has_chosen_backend: bool = False
    """Whether mlbench chose the backend, as the user named none."""
    until: TimeForTurns | None = None
    """The time for turns of several backends; None: no turns."""
    full_weights: int = 0
    """`Workload.full_weights`, to print which devices have room for them; 0: nothing is printed."""


def make_and_print(plan: RunPlan, plugins: Plugins, printed: Printed) -> int:
    """Make the runs of a plan that are missing, print all of them, and return the exit status."""
    from mlbench.cli.run_maker import how_to_go_on, run_and_print
    from mlbench.running.notices import suite_notices

    done, made = plan.asked - len(plan.requests), dict[int, "RunRecord"]()
    how: dict[str, Any] = {"done": done, "lanes": plan.lanes, "is_quiet": printed.is_quiet, "on_made": made.__setitem__}
    try:
        with suite_notices(plan, plugins):
            records = [*plan.done, *run_and_print(plan.requests, plugins, plan.shared, **how)]
    except KeyboardInterrupt:
        if made and not printed.as_json:
            _print([*plan.done, *made.values()], replace(printed, until=None))
        echo_wrapped(how_to_go_on(plan, made), 2, to_stderr=True)
        raise
    if printed.as_json:
        echo_json("[" + ",".join(record.text() for record in records) + "]")
        return _status(records, plan)
    _print(records, printed)
    if printed.has_chosen_backend:
        _print_faster_backends(records, printed.results)
    return _status(records, plan)


def _status(records: Sequence[RunRecord], plan: RunPlan) -> int:
    return 0 if records and len(records) >= plan.asked and all(record.is_good for record in records) else 1


def _print(records: Sequence[RunRecord], printed: Printed) -> None:
    if records:
        from rich.console import Console

        from mlbench.reports.console import conditions, table
        from mlbench.reports.precision_table import precision_table, size_lines
        from mlbench.reports.text_table import WIDTH, print_line

        console = Console(width=terminal_width() or WIDTH)
        console.print(table(records, console.width))
        if len({record.precision_and_transform for record in records}) > 1:
            console.print(precision_table(records))
            for line in size_lines(records, printed.full_weights):
                echo_wrapped(line, 2)
        print_line(console, conditions(records))
        _print_backends(records, printed.results, printed.until)


def _print_backends(records: Sequence[RunRecord], results: Path, until: TimeForTurns | None) -> None:
    """Print how fast backends are relative to each other, where several ran the same workload."""
    from rich.console import Console

    from mlbench.cli.backends_in_turns import measure_backends
    from mlbench.comparison.backends import compare_backends
    from mlbench.records.store.selection import runs_like
    from mlbench.reports.backend_table import backend_table
    from mlbench.reports.sides import backend_lines
    from mlbench.reports.text_table import WIDTH

    if len({record.backend for record in records}) > 1:
        compared = list(compare_backends(records, runs_like(results, records)))
        if until and not compared:
            lacking = "no two backends have a valid and accurate run of one kind"
            echo_line(f"Nothing to measure until it is known: {lacking}.")
        measured = measure_backends(compared, results, until) if until else None
        if resources := backend_table(records, terminal_width() or WIDTH):
            Console(width=terminal_width() or WIDTH).print(resources)
        found = measured.found if measured else compared
        for line in backend_lines(found, terminal_width(), has_scores=not resources):
            echo_wrapped(line, 4)
        if measured:
            measured.close()


def _print_choice(plan: RunPlan) -> None:
    """Print which backends the plan chose, and why."""
    for each in plan.faster:
        echo_wrapped(f"{_format_faster(each)}: it runs.", 2, to_stderr=True)
    if len(plan.faster) < plan.asked:
        others = " for the other runs" if plan.faster else ""
        why = "no earlier run on this machine shows a faster one"
        echo_wrapped(f"{plan.ranked} runs{others}, the best backend by rank: {why}.", 2, to_stderr=True)


def _format_faster(each: FasterBackend) -> str:
    """Return how much faster a backend was in an earlier run."""
    run, other = each.run, each.other
    speeds = [quantity(record.result.value, record.result.unit) for record in (other, run) if record.result]
    return (
        f"{run.workload} {run.scenario}: {other.backend} was {three_digits(each.ratio)} times as fast as "
        f"{run.backend} in an earlier run ({' against '.join(speeds)})"
    )


def _print_faster_backends(records: Sequence[RunRecord], results: Path) -> None:
    """Print earlier runs on other backends that were faster than the default backend now."""
    from mlbench.comparison.backends import faster_backends
    from mlbench.records.store.index import folders_where
    from mlbench.records.store.reading import read_runs

    for workload in dict.fromkeys(record.workload for record in records):
        ours = [record for record in records if record.workload == workload]
        for each in faster_backends(ours, read_runs(folders_where(results, workload=workload))):
            echo_wrapped(f"{_format_faster(each)}: --backend {each.other.backend}", 2)
