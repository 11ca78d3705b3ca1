"""Plans a search for a rate: checks it, and estimates its duration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mlbench.contracts.scenario import LoadSettings, Scenario
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.planning.requests import ResolvedRequest, RunRequest, request_rules, resolve
from mlbench.rules.tiers import RunLimits, Tier, latency_limits, run_length, with_own_limits
from mlbench.toolkit.rate_search import RateGoal

PROBES = ".probes"
"""In the results folder: the runs that only look for the rate. Hidden, so that none of them counts as a result."""

TAG, PROBE_TAG = "tune", "tune-probe"
"""Tags of the full runs, and of those that only look for the rate."""

SEARCHED = "load.target_qps"
_OWN = (SEARCHED, "load.end_at_late_share")

_PROBE_SHARE, _LEAST_PROBE_S = 0.1, 2.0
_PER_LIMIT = 3
"""A probe lasts so many times as long as a query may take: a queue needs that time to grow too long."""

_LATE_IN_PROBE = 10
"""A probe sends so many queries that this many may be late, or as many as a full run."""

AROUND_S = 10.0
"""Duration of a run outside its measurement: starting a process, loading, warm-up."""

_LEAST_PROBES, _USUAL_PROBES, _USUAL_RUNS = 8, 10, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest(RunRequest):
    """The user's request: that of a full run. Names are as typed."""

    scenario: str = ""
    """Empty: the first that sends a rate."""
    tier: Tier = Tier.DEV
    limits: Mapping[str, float] = field(default_factory=dict)
    """Settings, as `own_limits.settings_of_limits` gives them."""
    tag: str = TAG

    def run_in(self, scenario: Scenario) -> RunRequest:
        """Return the request of a full run in a scenario, under the limits."""
        return replace(self, scenario=scenario.name, overrides={**self.overrides, **self.limits})


@dataclass(frozen=True, slots=True, kw_only=True)
class TunePlan:
    """A search that is ready to start."""

    request: TuneRequest
    base: ResolvedRequest
    """A full run, at no rate yet."""
    scenario: Scenario
    limits: RunLimits
    """Those of latencies are in force; the others the rules'."""
    goal: RateGoal
    speeds: tuple[Scenario, ...]
    """The scenarios in which the speed is measured first, to know where to begin."""

    def seconds_left(self, *, probes: int, runs: int, is_least: bool) -> float:
        """Return how long the search takes, at least or usually, when so many probes and full runs are there."""
        all_probes, all_runs = (_LEAST_PROBES, 2) if is_least else (_USUAL_PROBES, _USUAL_RUNS)
        left_probes, left_runs = max(0, all_probes - probes), max(1, all_runs - runs)
        speeds = 0 if probes else len(self.speeds)
        measured_s = left_probes * self.goal.probe_s + left_runs * self.goal.full_s + speeds * _LEAST_PROBE_S
        return measured_s + AROUND_S * (left_probes + left_runs + speeds)


def plan_tune(request: TuneRequest, plugins: Plugins) -> TunePlan:
    """Return how a rate will be searched for; nothing runs.

    Raises:
        MlbenchError: a name, a setting or a limit is wrong, the backend cannot run here, or there is no rate to find.
    """
    workload, scenario = plugins.workload(request.workload), _scenario(request, plugins)
    for key in _OWN:
        if key in request.overrides:
            raise UsageError(f"{key} is given with --set.", hint=f"`{request.tag}` chooses it.")
    base = resolve(request.run_in(scenario), plugins)
    load, rules = base.settings.fill("load", LoadSettings()), request_rules(request, plugins)
    limits = with_own_limits(latency_limits(rules, workload, scenario, request.profile), load)
    return TunePlan(
        request=request,
        base=base,
        scenario=scenario,
        limits=limits,
        goal=_goal(load, scenario, run_length(rules, scenario, request.tier), limits),
        speeds=_speeds(request, plugins),
    )


def _scenario(request: TuneRequest, plugins: Plugins) -> Scenario:
    """Return the scenario whose rate is searched for."""
    workload, rules = plugins.workload(request.workload), request_rules(request, plugins)
    at_a_rate = [each for each in plugins.scenarios.values() if each.sends_rate and each.official in rules.scenarios]
    names = " or ".join(each.name for each in at_a_rate if each.name in rules.scenarios) or "none"
    if not request.scenario:
        if not at_a_rate:
            raise UsageError(f"{workload.name} has no Server scenario, which mlbench {request.tag} needs.")
        return at_a_rate[0]
    scenario = plugins.scenario(request.scenario)
    if not scenario.sends_rate:
        raise UsageError(
            f"{scenario.name} sends no rate, so there is none to {request.tag}.", hint=f"Such a scenario: {names}."
        )
    if scenario not in at_a_rate:
        raise UsageError(f"the rules do not define {workload.name} in {scenario.name}.", hint=f"With a rate: {names}.")
    return scenario


def _speeds(request: TuneRequest, plugins: Plugins) -> tuple[Scenario, ...]:
    """Return a scenario that sends everything at once and one that waits for each answer, as far as there are such."""
    rules = request_rules(request, plugins)
    defined = [each for each in plugins.scenarios.values() if each.name in rules.scenarios]
    together = [each for each in defined if each.sends_all_at_once][:1]
    alone = [each for each in defined if each.waits_for_answers and not each.has_query_size][:1]
    return (*together, *alone)


def _goal(load: LoadSettings, scenario: Scenario, length: tuple[int, int], limits: RunLimits) -> RateGoal:
    percentile = scenario.percentile or 0.99
    full_s = (load.min_duration_ms or length[0]) / 1000
    full_queries = load.min_query_count or length[1]
    longest_ms = limits.server_latency_ms or limits.ttft_ms or 0
    return RateGoal(
        percentile=percentile,
        full_s=full_s,
        full_queries=full_queries,
        probe_s=min(full_s, max(_PROBE_SHARE * full_s, _LEAST_PROBE_S, _PER_LIMIT * longest_ms / 1000)),
        probe_queries=min(full_queries, round(_LATE_IN_PROBE / (1 - percentile))),
    )
