"""``mlbench curve``: throughput against latency."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import click

from mlbench.cli import options, search_options
from mlbench.cli.completions import offer_scenarios, offer_workloads
from mlbench.cli.model_options import model_options
from mlbench.cli.output import echo_facts, echo_json, echo_line
from mlbench.errors import UsageError
from mlbench.records.store.run_names import CURVE_TAG
from mlbench.reports.units import rough_time

if TYPE_CHECKING:
    from mlbench.discovery import Plugins
    from mlbench.tuner.curve import CurveOutcome, CurvePlan
    from mlbench.tuner.tune_plan import TuneRequest


@click.command("curve")
@click.argument("workload", required=False, shell_complete=offer_workloads)
@model_options
@options.backend_option
@click.option(
    "--scenario",
    default="",
    metavar="SCENARIO",
    shell_complete=offer_scenarios,
    help="Scenario whose rate rises.  [default: the first with a rate]",
)
@options.profile_option
@options.tier_option
@search_options.precision_option
@options.weights_option
@options.round_option
@click.option("--points", type=click.IntRange(4, 32), default=7, show_default=True, help="Number of rates.")
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Runs at each rate, interleaved.",
)
@click.option("--accuracy/--no-accuracy", "wants_accuracy", default=True, help="Whether to score each run as well.")
@options.power_option
@search_options.limit_option
@search_options.budget_option
@search_options.plan_option
@click.option("--fresh", is_flag=True, help="Repeat all runs, including stored ones.")
@options.overrides_option
@options.results_option
@search_options.json_option
@search_options.as_search
def command(
    request: TuneRequest,
    plugins: Plugins,
    budget_s: float,
    points: int,
    repeats: int,
    only_plans: bool,
    fresh: bool,
    as_json: bool,
) -> int:
    """Measure throughput against latency: WORKLOAD on a backend at rates from low to saturated, and in Offline.

    Each point is a normal run with the tag `curve`; `mlbench report curve` draws them. Repeat the command to continue
    after an interruption. Exit status: 0 when all runs are stored and at least one point is valid, 1 otherwise, 2 for
    wrong usage, before anything is measured.
    """
    from mlbench.tuner.curve import plan_curve

    plan = plan_curve(dataclasses.replace(request, tag=CURVE_TAG), plugins, points=points, repeats=repeats)
    if only_plans:
        _print_plan(plan, plugins, as_json=as_json, fresh=fresh)
        return 0
    _check_budget(plan, plugins, budget_s, fresh=fresh)
    return _print(plan, _carry_out(plan, plugins, budget_s=budget_s, fresh=fresh), as_json=as_json)


def _print_plan(plan: CurvePlan, plugins: Plugins, *, as_json: bool, fresh: bool) -> None:
    from mlbench.reports.curve import curve_plan_line
    from mlbench.tuner.curve import left_of

    left = left_of(plan, plugins, fresh=fresh)
    if as_json:
        facts = {"runs": plan.runs, "stored": left.stored, "seconds": left.seconds, "rates_per_s": left.rates_per_s}
        echo_facts(facts)
        return
    echo_line(curve_plan_line(_name(plan), plan.runs, left))


def _name(plan: CurvePlan) -> str:
    base = plan.at_a_rate.base
    return f"{base.workload} {base.backend} {base.precision}"


def _check_budget(plan: CurvePlan, plugins: Plugins, budget_s: float, *, fresh: bool) -> None:
    """Raise `UsageError` for a budget that is too short for even one of the missing runs."""
    from mlbench.tuner.curve import left_of
    from mlbench.tuner.tune_plan import AROUND_S

    if budget_s == float("inf"):
        return
    least_s = plan.at_a_rate.goal.full_s + AROUND_S
    left = left_of(plan, plugins, fresh=fresh)
    if left.seconds and budget_s < least_s:
        raise UsageError(
            f"--budget {budget_s / 60:g} is too short: a run takes at least {rough_time(least_s)}, and the rest of "
            f"the curve {rough_time(left.seconds)}.",
            hint="Give more, or a shorter --tier.",
        )


def _carry_out(plan: CurvePlan, plugins: Plugins, *, budget_s: float, fresh: bool) -> CurveOutcome:
    from mlbench.cli.run_maker import ProgressingMaker
    from mlbench.records.run_record import RunRecord
    from mlbench.records.store.run_folder import make_results_folder
    from mlbench.reports.curve import curve_points
    from mlbench.tuner.curve import measure_curve
    from mlbench.tuner.trial_maker import TrialMaker

    def show(record: RunRecord, is_stored: bool) -> None:
        (point,) = curve_points([record])
        source = ", stored" if is_stored else ""
        echo_line(f"{point.name}: {point.problem or 'valid'}{source}  [{record.run_id}]", to_stderr=True)

    make_results_folder(plan.at_a_rate.base.results)
    return measure_curve(plan, plugins, TrialMaker(ProgressingMaker(plugins), budget_s, fresh), show)


def _print(plan: CurvePlan, outcome: CurveOutcome, *, as_json: bool) -> int:
    from mlbench.reports.console import DISCLAIMER
    from mlbench.reports.curve import curve_json, curve_lines, curve_points

    points = curve_points(outcome.records)
    if as_json:
        echo_json(curve_json(points, missing=outcome.missing, made=outcome.made))
    else:
        echo_line(f"{_name(plan)}: throughput against latency")
        for line in curve_lines(points) if points else ():
            echo_line(line)
        echo_line("Drawn by: mlbench report curve -o curve.html")
        echo_line(DISCLAIMER)
    if outcome.missing:
        echo_line(
            f"The budget ended with {outcome.missing} of {plan.runs} runs missing; repeat the command to continue.",
            to_stderr=True,
        )
    counts = any(not each.problem and each.rate_per_s is not None for each in points)
    return 0 if counts and not outcome.missing else 1
