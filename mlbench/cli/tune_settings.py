"""``mlbench tune`` in a scenario without a rate: find the settings with the best result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mlbench.cli.output import echo_facts, echo_line
from mlbench.cli.run_maker import ProgressingMaker
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.planning.requests import ResolvedRequest
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_folder import make_results_folder
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.tune import found_settings_lines, settings_plan_line, settings_text, settings_trial_line
from mlbench.reports.units import rough_time
from mlbench.system.folders import tuned_settings_file
from mlbench.tuner.find_settings import SettingsOutcome, TriedSettings, find_settings
from mlbench.tuner.settings_plan import SettingsPlan, values_to_save
from mlbench.tuner.trial_maker import TrialMaker
from mlbench.tuner.tuned_settings import check_place, save_entry

if TYPE_CHECKING:
    from pathlib import Path


def print_settings_plan(plan: SettingsPlan, *, as_json: bool) -> None:
    """Print the settings that a search varies, and its duration."""
    if as_json:
        varied = {knob.key: list(knob.values) for knob in plan.knobs}
        echo_facts({"usual_s": plan.usual_s, "runs": plan.trials, "varies": varied})
        return
    keys = [knob.key for knob in plan.knobs]
    echo_line(settings_plan_line(searched_name(plan.base), usual_s=plan.usual_s, keys=keys, trials=plan.trials))


def tune_settings(
    plan: SettingsPlan, plugins: Plugins, *, budget_s: float, fresh: bool, save: bool, as_json: bool
) -> int:
    """Carry out a search, print what it found, and return the exit status."""
    if budget_s < plan.usual_s / 2:
        raise UsageError(
            f"--budget {budget_s / 60:g} is too short: the search usually takes {rough_time(plan.usual_s)}.",
            hint="Give at least half of that, or a shorter --tier.",
        )
    if save:
        check_place(tuned_settings_file())

    def show(tried: TriedSettings) -> None:
        what = settings_text(tried.trial.settings, plan.start)
        line = settings_trial_line(
            what, tried.record, is_full=tried.trial.is_full, is_stored=tried.is_stored, reason=tried.reason
        )
        echo_line(line, to_stderr=True)

    make_results_folder(plan.base.results)
    outcome = find_settings(plan, plugins, TrialMaker(ProgressingMaker(plugins), budget_s, fresh), show)
    saved = _save(plan, outcome) if save and outcome.best else None
    _print(plan, outcome, saved, as_json=as_json)
    return 0 if outcome.best else 1


def searched_name(base: ResolvedRequest) -> str:
    """Return the name of the system that a search runs."""
    return f"{base.workload} {base.backend} {base.scenario} {base.precision}"


def save_found(
    base: ResolvedRequest, values: Mapping[str, object], run_ids: Sequence[str], limits: Mapping[str, object]
) -> Path:
    """Save the settings that a search found, with the runs that show it, for later runs like these.

    Return the file.
    """
    names = ["workload", "backend", "scenario", "profile", "precision"]
    names += [] if base.round == DEFAULT_ROUND else ["round"]
    when = {name: str(getattr(base, name)) for name in names}
    how = {
        "by": "mlbench tune",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "tier": str(base.tier),
        "runs": list(run_ids),
        **{key.removeprefix("load."): value for key, value in limits.items()},
    }
    file = tuned_settings_file()
    save_entry(file, when, values, how)
    return file


def _save(plan: SettingsPlan, outcome: SettingsOutcome) -> Path | None:
    """Save the settings, and return the file; None where the current ones are the best and none were saved before."""
    assert outcome.best
    values = values_to_save(plan, outcome.best.settings)
    if not values:
        return None
    return save_found(plan.base, values, [each.run_id for each in outcome.records_of(outcome.best)], {})


def _print(plan: SettingsPlan, outcome: SettingsOutcome, saved: Path | None, *, as_json: bool) -> None:
    best = outcome.best
    of_best, of_start = _records(plan, outcome)
    if as_json:
        facts = {
            "settings": dict(best.settings) if best else None,
            "changed": {key: value for key, value in best.settings.items() if value != plan.start[key]} if best else {},
            "results": [each.result.value for each in of_best if each.result],
            "results_today": [each.result.value for each in of_start if each.result],
            "runs": [each.run_id for each in of_best],
            "made": outcome.made,
            "saved": str(saved) if saved else None,
        }
        echo_facts(facts)
        return
    if not best:
        reason = "no settings gave a valid result" if outcome.finalists else "the budget is used up"
        echo_line(f"No settings were found: {reason}; repeat the command to continue.", to_stderr=True)
        return
    name, what = searched_name(plan.base), settings_text(best.settings, plan.start)
    for line in found_settings_lines(name, what, of_best, of_start):
        echo_line(line)
    echo_line(
        f"  saved in   {saved}: later runs use it" if saved else "  --save keeps the changed settings for later runs."
    )
    echo_line(DISCLAIMER)


def _records(plan: SettingsPlan, outcome: SettingsOutcome) -> tuple[tuple[RunRecord, ...], tuple[RunRecord, ...]]:
    """Return the full runs of the best settings and of the current ones."""
    best = outcome.records_of(outcome.best) if outcome.best else ()
    start = next((each for each in outcome.finalists if each.settings == plan.start), None)
    return best, outcome.records_of(start) if start else ()
