"""Plans a search in a scenario without a rate: settings of an engine that their options mark as tunable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.rules import Tokens
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.tunable import Tunable
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.execution.cores import physical_cores
from mlbench.planning.requests import ResolvedRequest, request_rules, resolve
from mlbench.rules.tiers import run_length
from mlbench.settings.layers import fields_of
from mlbench.tuner.search.settings_search import FINALISTS, REPEATS, Knob, KnobValues, SettingsTrial, longest_search
from mlbench.tuner.trial_runs import asking, probing
from mlbench.tuner.tune_plan import AROUND_S, TuneRequest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_PROBE_S = 3.0
"""What a short trial measures, usually."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsPlan:
    """A search that is ready to start."""

    request: TuneRequest
    base: ResolvedRequest
    """A full run, with the settings that a run has today."""
    knobs: tuple[Knob, ...]
    full_s: float
    """How long a full run measures, at least."""

    @property
    def start(self) -> KnobValues:
        """Return today's value of each knob."""
        return KnobValues({knob.key: self.base.settings.by_key[knob.key].value for knob in self.knobs})

    @property
    def trials(self) -> int:
        """Return how many runs the search usually makes at most."""
        return longest_search(self.knobs) + FINALISTS * REPEATS

    def seconds(self, trial: SettingsTrial) -> float:
        """Return how long a trial probably measures."""
        return self.full_s if trial.is_full else _PROBE_S

    @property
    def usual_s(self) -> float:
        """Return how long the whole search usually takes at most."""
        probes_s = longest_search(self.knobs) * (_PROBE_S + AROUND_S)
        return probes_s + FINALISTS * REPEATS * (self.full_s + AROUND_S)

    def run_of(self, trial: SettingsTrial, plugins: Plugins) -> ResolvedRequest:
        """Return the run of a trial: an ordinary one, that `mlbench run` with the same settings makes too."""
        overrides = {**self.request.overrides, **trial.settings}
        if trial.is_full:
            return replace(resolve(asking(self.base, overrides=overrides), plugins), repeat=trial.repeat)
        return resolve(probing(self.base, overrides=overrides), plugins)


def searches_settings(request: TuneRequest, plugins: Plugins) -> bool:
    """Return whether a search is of settings: its scenario is named and sends no rate.

    Raises:
        UsageError: there is no such scenario.
    """
    return bool(request.scenario) and not plugins.scenario(request.scenario).sends_rate


def plan_settings(request: TuneRequest, plugins: Plugins) -> SettingsPlan:
    """Return how settings will be searched for; nothing runs.

    Raises:
        MlbenchError: a name or a setting is wrong, the backend cannot run here, a limit is given, or nothing may vary.
    """
    scenario = plugins.scenario(request.scenario)
    if request.limits:
        raise UsageError(f"{scenario.name} is not judged by a latency, so --limit has no meaning there.")
    rules = request_rules(request, plugins)
    base = resolve(request.run_in(scenario), plugins)
    templates = {"execution": EnginePlan(), "backend": plugins.backend(request.backend).options}
    program = "batch" if rules.tokens is Tokens.NONE else "generation"
    knobs = tuple(each for each in _knobs(templates, base, program) if each.key not in request.overrides)
    if not knobs:
        raise UsageError(f"{request.backend} has no setting that may vary, but those given with --set.")
    length_ms, _ = run_length(rules, scenario, request.tier)
    load = base.settings.fill("load", LoadSettings())
    return SettingsPlan(request=request, base=base, knobs=knobs, full_s=(load.min_duration_ms or length_ms) / 1000)


def _knobs(templates: Mapping[str, DataclassInstance], base: ResolvedRequest, program: str) -> Iterator[Knob]:
    """Yield the tunable settings for a kind of program, with their current value among the values."""
    cores = len(physical_cores())
    for key, (wanted, _) in fields_of(templates):
        marks = [mark for mark in getattr(wanted, "__metadata__", ()) if isinstance(mark, Tunable)]
        value = base.settings.by_key[key].value
        for mark in (each for each in marks if each.programs in {"all", program}):
            values = tuple(each for each in mark.values if not mark.is_of_cores or int(each) <= cores)
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value not in values:
                values = tuple(sorted((*values, value))) if is_number else (value, *values)
            if len(values) > 1:
                yield Knob(key, values)


def values_to_save(plan: SettingsPlan, best: KnobValues) -> KnobValues:
    """Return what an entry of tuned settings says: what differs from today's, and what an older entry said.

    With it the settings given with --set that it was found with; nothing where nothing differs.
    """
    by_key, start = plan.base.settings.by_key, plan.start
    kept = {key: best[key] for key in best if best[key] != start[key] or by_key[key].layer.startswith("tune")}
    return KnobValues({**plan.request.overrides, **kept} if kept else {})
