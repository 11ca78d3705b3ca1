"""Carries out a search for the settings with the best result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord
from mlbench.tuner.search.settings_search import Finalist, SettingsTrial, search_settings
from mlbench.tuner.settings_plan import SettingsPlan
from mlbench.tuner.trial_maker import OverBudgetError, TrialMaker
from mlbench.tuner.trial_runs import check_completed


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedSettings:
    """The result of a trial."""

    trial: SettingsTrial
    record: RunRecord | None
    """None: an engine refuses these settings."""
    is_stored: bool
    reason: str = ""
    """Reason why it does not count; empty otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsOutcome:
    """The result of a search."""

    finalists: tuple[Finalist, ...]
    """The best first; empty if the budget ended before."""
    tried: tuple[TriedSettings, ...]

    @property
    def best(self) -> Finalist | None:
        """Return the best settings, if any were measured in full and count."""
        return self.finalists[0] if self.finalists and self.finalists[0].scores else None

    @property
    def made(self) -> int:
        """Return how many runs were made now; the others were stored."""
        return sum(each.record is not None and not each.is_stored for each in self.tried)

    def records_of(self, finalist: Finalist) -> tuple[RunRecord, ...]:
        """Return the full runs with some settings."""
        same = (each for each in self.tried if each.trial.is_full and each.trial.settings == finalist.settings)
        return tuple(each.record for each in same if each.record)


def find_settings(
    plan: SettingsPlan, plugins: Plugins, maker: TrialMaker, on_trial: Callable[[TriedSettings], None]
) -> SettingsOutcome:
    """Search for the settings with the best result; ``on_trial`` gets the result of each trial.

    Raises:
        InvalidRunError: the run with today's settings failed.
        MlbenchError: as `run_benchmark`, of today's settings.
    """
    trials = _Trials(plan, plugins, maker, on_trial)
    try:
        finalists = tuple(search_settings(plan.knobs, plan.start, trials.measure))
    except OverBudgetError:
        finalists = ()
    return SettingsOutcome(finalists=finalists, tried=tuple(trials.tried))


@dataclass(slots=True)
class _Trials:
    """The runs of a search in progress."""

    plan: SettingsPlan
    plugins: Plugins
    maker: TrialMaker
    on_trial: Callable[[TriedSettings], None]
    tried: list[TriedSettings] = field(default_factory=list)

    def measure(self, trial: SettingsTrial) -> float | None:
        """Make the run of a trial, unless it is stored, and return how good its result is: None if it has none.

        Raises:
            OverBudgetError: there is no time to make it.
        """
        tried = self._run(trial)
        self.tried.append(tried)
        self.on_trial(tried)
        result = tried.record.result if tried.record else None
        if tried.reason or result is None or not result.value:
            return None
        return result.value if result.higher_is_better else 1 / result.value

    def _run(self, trial: SettingsTrial) -> TriedSettings:
        is_start = trial.settings == self.plan.start
        try:
            request = self.plan.run_of(trial, self.plugins)
            what = "full run" if trial.is_full else "probe"
            record, is_stored = self.maker.record(request, what, self.plan.seconds(trial))
        except UsageError as error:
            if is_start:
                raise
            return TriedSettings(trial=trial, record=None, is_stored=False, reason=str(error))
        if is_start:
            check_completed(record)
        return TriedSettings(
            trial=trial, record=record, is_stored=is_stored, reason=_why_not(record, is_full=trial.is_full)
        )


def _why_not(record: RunRecord, *, is_full: bool) -> str:
    """Return the reason why a run does not count: it failed, or a full run is INVALID or inaccurate."""
    if record.failure:
        return f"{record.failure.kind} during {record.failure.stage}"
    verdict = record.verdict
    if not is_full or verdict is None or (verdict.is_valid and verdict.is_accurate is not False):
        return ""
    return "misses the accuracy target" if verdict.is_valid else "INVALID"
