"""``mlbench tune``: find the highest sustained rate, or the settings with the best result."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli import options, search_options
from mlbench.cli.completions import offer_scenarios, offer_workloads
from mlbench.cli.model_options import model_options
from mlbench.cli.output import echo_facts, echo_line
from mlbench.errors import UsageError
from mlbench.reports.units import rough_time
from mlbench.system.folders import tuned_settings_file

if TYPE_CHECKING:
    from mlbench.discovery import Plugins
    from mlbench.records.run_record import RunRecord
    from mlbench.toolkit.rate_search import RateObservation
    from mlbench.tuner.find_rate import TuneOutcome
    from mlbench.tuner.tune_plan import TunePlan, TuneRequest


@click.command("tune")
@click.argument("workload", required=False, shell_complete=offer_workloads)
@model_options
@options.backend_option
@click.option(
    "--scenario",
    default="",
    metavar="SCENARIO",
    shell_complete=offer_scenarios,
    help="Server: find the highest rate; others: find the best settings.  [default: the first with a rate]",
)
@options.profile_option
@click.option(
    "--tier",
    type=click.Choice(["smoke", "dev", "valid"]),
    default="dev",
    show_default=True,
    help="Length of the full runs: seconds, a minute, or the official durations and counts.",
)
@search_options.precision_option
@options.weights_option
@options.round_option
@options.accuracy_option
@options.power_option
@search_options.limit_option
@search_options.budget_option
@click.option("--save", is_flag=True, help="Keep the rate or the settings for later runs on this machine.")
@search_options.plan_option
@click.option("--fresh", is_flag=True, help="Repeat all runs, including those of an earlier search.")
@options.overrides_option
@options.results_option
@search_options.json_option
@search_options.as_search
def command(
    request: TuneRequest,
    plugins: Plugins,
    budget_s: float,
    save: bool,
    only_plans: bool,
    fresh: bool,
    as_json: bool,
) -> int:
    """Find the highest rate that WORKLOAD sustains on a backend, or its best settings.

    In Server, short probes bracket the rate, then full runs follow until two are valid at one rate. In a scenario
    without a rate, short probes vary one setting after another, and full runs compare the best settings with the
    current ones, interleaved. Full runs are stored with the tag `tune`. Repeat the command to continue after an
    interruption. Exit status: 0 when a rate or settings were found, 1 otherwise, 2 for wrong usage, before anything is
    measured.
    """
    from mlbench.cli.tune_settings import print_settings_plan, tune_settings
    from mlbench.tuner.settings_plan import plan_settings, searches_settings
    from mlbench.tuner.tune_plan import plan_tune
    from mlbench.tuner.tuned_settings import check_place

    if searches_settings(request, plugins):
        of_settings = plan_settings(request, plugins)
        if only_plans:
            print_settings_plan(of_settings, as_json=as_json)
            return 0
        return tune_settings(of_settings, plugins, budget_s=budget_s, fresh=fresh, save=save, as_json=as_json)
    plan = plan_tune(request, plugins)
    if only_plans:
        _print_plan(plan, plugins, as_json=as_json, fresh=fresh)
        return 0
    _check_budget(plan, plugins, budget_s, fresh=fresh)
    if save:
        check_place(tuned_settings_file())
    outcome = _carry_out(plan, plugins, budget_s=budget_s, fresh=fresh)
    saved = _save(plan, outcome) if save and outcome.found else None
    _print(plan, outcome, saved, as_json=as_json)
    return 0 if outcome.found else 1


def _print_plan(plan: TunePlan, plugins: Plugins, *, as_json: bool, fresh: bool) -> None:
    from mlbench.cli.tune_settings import searched_name
    from mlbench.reports.tune import plan_line
    from mlbench.tuner.find_rate import remaining_of

    left = remaining_of(plan, plugins, fresh=fresh)
    if as_json:
        facts = {"least_s": left.least_s, "usual_s": left.usual_s, "stored": left.stored, "is_done": left.is_done}
        echo_facts(facts)
    else:
        echo_line(plan_line(searched_name(plan.base), least_s=left.least_s, usual_s=left.usual_s, stored=left.stored))


def _check_budget(plan: TunePlan, plugins: Plugins, budget_s: float, *, fresh: bool) -> None:
    """Raise `UsageError` for a budget that is too short to find a rate."""
    from mlbench.tuner.find_rate import remaining_of

    if budget_s == float("inf"):
        return
    least_s = remaining_of(plan, plugins, fresh=fresh).least_s
    if budget_s < least_s:
        raise UsageError(
            f"--budget {budget_s / 60:g} is too short: the search takes at least {rough_time(least_s)}.",
            hint="Give more, or a shorter --tier.",
        )


def _carry_out(plan: TunePlan, plugins: Plugins, *, budget_s: float, fresh: bool) -> TuneOutcome:
    from mlbench.cli.run_maker import ProgressingMaker
    from mlbench.records.store.run_folder import make_results_folder
    from mlbench.reports.tune import trial_line
    from mlbench.tuner.find_rate import find_rate
    from mlbench.tuner.trial_maker import TrialMaker

    def show(observation: RateObservation, is_stored: bool) -> None:
        echo_line(trial_line(observation, is_stored=is_stored), to_stderr=True)

    make_results_folder(plan.base.results)
    return find_rate(plan, plugins, TrialMaker(ProgressingMaker(plugins), budget_s, fresh), show)


def _save(plan: TunePlan, outcome: TuneOutcome) -> Path:
    """Save the rate and the settings that it was found with, and return the file."""
    from mlbench.cli.tune_settings import save_found
    from mlbench.tuner.tune_plan import SEARCHED

    assert outcome.found
    values = {**plan.request.overrides, SEARCHED: outcome.found.rate_per_s}
    return save_found(plan.base, values, [each.run_id for each in outcome.found.runs], plan.request.limits)


def _print(plan: TunePlan, outcome: TuneOutcome, saved: Path | None, *, as_json: bool) -> None:
    from mlbench.cli.tune_settings import searched_name
    from mlbench.reports.console import DISCLAIMER
    from mlbench.reports.tune import found_lines

    found = outcome.found
    higher = _higher(outcome, plan.base.results)
    if as_json:
        values = sorted(record.result.value or 0.0 for record in outcome.records if record.result)
        facts = {
            "rate_per_s": found.rate_per_s if found else None,
            "completed": {"low": values[0], "high": values[-1]} if values else None,
            "runs": [each.run_id for each in found.runs] if found else [],
            "higher": {"rate_per_s": higher.arrivals_per_s, "run": higher.run_id} if higher else None,
            "made": outcome.made,
            "reason": outcome.reason,
            "saved": str(saved) if saved else None,
        }
        echo_facts(facts)
        return
    if found:
        for line in found_lines(searched_name(plan.base), found.rate_per_s, found.runs, outcome.records, higher):
            echo_line(line)
        echo_line(f"  saved in   {saved}: later runs send this rate" if saved else "  --save keeps it for later runs.")
        echo_line(DISCLAIMER)
    if outcome.reason:
        echo_line(f"{'' if found else 'No rate was found: '}{outcome.reason}.", to_stderr=not found)


def _higher(outcome: TuneOutcome, results: Path) -> RunRecord | None:
    """Return the valid stored run of the highest rate above the one that was found."""
    from mlbench.records.store.selection import runs_like
    from mlbench.tuner.find_rate import highest_run_above

    if not outcome.records:
        return None
    shown = outcome.records[-1]
    return highest_run_above(shown, runs_like(results, [shown]))
