"""``mlbench precisions``: a workload in each precision and after each transform, as one table."""

from __future__ import annotations

from typing import Any

import click

from mlbench.cli import options
from mlbench.cli.axis_options import axis_options, repeats_option
from mlbench.cli.completions import offer_workloads
from mlbench.cli.model_options import model_options
from mlbench.discovery import Plugins
from mlbench.errors import UsageError


@click.command("precisions")
@click.argument("workload", required=False, shell_complete=offer_workloads)
@model_options
@axis_options(
    backend="the best available",
    scenario="the one that sends all samples at once",
    precision="all of the backend, fp32 first",
    transform="a row each; 'sparse prune-layers' is one row with both",
)
@options.profile_option
@options.tier_option
@options.weights_option
@options.accuracy_option
@options.round_option
@repeats_option
@click.option("--fresh", is_flag=True, help="Make all runs, not only those missing or failed.")
@options.overrides_option
@options.results_option
@options.quiet_option
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of the records, and nothing else, to stdout.")
def command(workload: str | None, fresh: bool, is_quiet: bool, as_json: bool, **matrix_fields: Any) -> int:
    """Measure WORKLOAD in each precision of a backend, and after each --transform, and print one table.

    Speed-ups and losses are against the first row, the untouched model in fp32 where the backend has it; --repeat adds
    intervals. The runs have the tag `precisions`; repeat the command to continue after an interruption. Exit status: 0
    when every run is valid and accurate, 1 otherwise, 2 for wrong usage.
    """
    from mlbench.cli.run import Printed, make_and_print
    from mlbench.planning.precision_suite import suite_of_precisions
    from mlbench.planning.run_plan import RunMatrix, plan_suite

    plugins = Plugins.discover()
    matrix = RunMatrix(workloads=(workload,) if workload else (), **matrix_fields).for_model(plugins)
    if not matrix.workloads:
        raise UsageError("no workload is named.", hint="Name one of `mlbench list`, or a file with --model.")
    suite = suite_of_precisions(matrix, plugins)
    plan = plan_suite(suite, plugins, results=matrix.results, overrides=matrix.overrides, fresh=fresh)
    known = plugins.workloads.get(matrix.workloads[0])
    size = known.full_weights if known else 0
    printed = Printed(results=matrix.results, as_json=as_json, is_quiet=is_quiet, full_weights=size)
    return make_and_print(plan, plugins, printed)
