"""Tiers: duration and size of a run, and the resulting limits."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from mlbench.contracts.rules import OFFICIAL_MIN_DURATION_MS, Tokens
from mlbench.contracts.workload import Profile
from mlbench.errors import UsageError
from mlbench.rules.early_stopping import queries_needed
from mlbench.rules.official import WorkloadRules
from mlbench.rules.round_parts import RoundSeeds

if TYPE_CHECKING:
    from mlbench.contracts.dataset import Dataset
    from mlbench.contracts.model import Model
    from mlbench.contracts.scenario import LoadSettings, Scenario
    from mlbench.contracts.workload import Workload


OWN_LIMITS = {
    "server_latency_ms": "latency_limit_ms",
    "ttft_ms": "ttft_limit_ms",
    "tpot_ms": "tpot_limit_ms",
}
"""By the limit of `RunLimits`, the setting of `LoadSettings` that replaces it."""


class Tier(StrEnum):
    """Seconds, a minute, or the official durations and counts."""

    SMOKE = "smoke"
    DEV = "dev"
    VALID = "valid"

    @property
    def reason(self) -> str:
        """The tier's purpose, in a few words."""
        return _rows()[self].reason

    @property
    def min_duration_ms(self) -> int:
        """How long a performance run lasts at least."""
        return _rows()[self].min_duration_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """The limits in force for one run: LoadGen is configured with them, and the verdict checks the log against them."""

    min_duration_ms: int
    min_query_count: int
    """Queries; in Offline 1."""
    offline_min_samples: int | None
    """Samples in the one query of Offline; None in the other scenarios."""
    performance_sample_count: int
    """Minimum number of samples kept loaded."""
    samples_per_query: int | None
    """None in Offline."""
    server_latency_ms: float | None
    """None outside Server, and where tokens are judged instead."""
    ttft_ms: float | None
    """None outside Server, and where tokens are not measured."""
    tpot_ms: float | None
    equal_issue: bool
    tokens: Tokens
    seeds: RoundSeeds


def limits_of(  # noqa: PLR0913 - all that decides
    rules: WorkloadRules, workload: Workload, dataset: Dataset, scenario: Scenario, *, tier: Tier, profile: Profile
) -> RunLimits:
    """Return the limits in force: the rules', relaxed where the tier or the mini profile says so.

    On mini the performance set may be as small as the dataset, and Server may have a limit of its own.

    Args:
        rules: the workload's in the run's round.
        workload: has limits of its own for the mini profile.
        dataset: of this profile.
        scenario: names the official scenario whose rules hold.
        tier: decides the duration, the queries and Offline's samples.
        profile: mini or full.
    """
    row, is_mini = _rows()[tier], profile is Profile.MINI
    official = latency_limits(rules, workload, scenario, profile)
    is_offline = official.offline_min_samples is not None
    return replace(
        official,
        min_duration_ms=_min_duration_ms(rules, tier),
        min_query_count=_min_query_count(rules, official.min_query_count, tier, scenario),
        offline_min_samples=_offline_min_samples(rules, row, dataset) if is_offline else None,
        performance_sample_count=min(
            rules.performance_sample_count or dataset.performance_count,
            dataset.count if is_mini else rules.samples or dataset.count,
        ),
    )


def fit_to(limits: RunLimits, dataset: Dataset, model: Model) -> RunLimits:
    """Return the limits of a run: of a set smaller than the official one no more samples are asked than it has."""
    if not model.deviations:
        return limits
    return replace(limits, performance_sample_count=min(limits.performance_sample_count, dataset.count))


def run_length(rules: WorkloadRules, scenario: Scenario, tier: Tier) -> tuple[int, int]:
    """Return how many milliseconds a run lasts at least, and how many queries it sends at least."""
    least = _min_query_count(rules, official_limits(rules, scenario).min_query_count, tier, scenario)
    return _min_duration_ms(rules, tier), least


def latency_limits(rules: WorkloadRules, workload: Workload, scenario: Scenario, profile: Profile) -> RunLimits:
    """Return the official limits with those of latencies as they are in this profile."""
    official = official_limits(rules, scenario)
    is_by_latency = scenario.sends_rate and rules.tokens is not Tokens.MEASURED
    own_ms = workload.mini_server_latency_ms if profile is Profile.MINI and is_by_latency else None
    return replace(official, server_latency_ms=own_ms or official.server_latency_ms)


def with_own_limits(limits: RunLimits, load: LoadSettings) -> RunLimits:
    """Return the limits with those of latencies that the user sets, which must be stricter.

    Raises:
        UsageError: one is larger than the rules', or of what is not judged there.
    """
    chosen: dict[str, Any] = {}
    for limit, key in OWN_LIMITS.items():
        asked_ms: float = getattr(load, key)
        theirs_ms: float | None = getattr(limits, limit)
        if not asked_ms:
            continue
        if theirs_ms is None:
            judged = [
                f"load.{each} ({getattr(limits, name):g})" for name, each in OWN_LIMITS.items() if getattr(limits, name)
            ]
            hint = f"Judged is {' and '.join(judged)}." if judged else "No latency is judged in this scenario."
            raise UsageError(f"load.{key} is {asked_ms:g}, and that is not judged in such a run.", hint=hint)
        if asked_ms > theirs_ms:
            raise UsageError(
                f"load.{key} is {asked_ms:g}, larger than the limit of the rules.", hint=f"It is {theirs_ms:g} at most."
            )
        chosen[limit] = int(asked_ms) if asked_ms.is_integer() else asked_ms
    return replace(limits, **chosen)


def official_limits(rules: WorkloadRules, scenario: Scenario) -> RunLimits:
    """Return the limits of the official rules: nothing relaxed, and nothing of mlbench's own."""
    official, is_by_tokens = rules.round.rules_of_scenario(scenario), rules.tokens is Tokens.MEASURED
    latencies = rules.latencies_in(scenario.official)
    return RunLimits(
        min_duration_ms=rules.min_duration_ms,
        min_query_count=rules.min_query_count.get(scenario.official, official.min_query_count),
        offline_min_samples=rules.offline_min_samples if scenario.sends_all_at_once else None,
        performance_sample_count=rules.performance_sample_count,
        samples_per_query=official.samples_per_query,
        server_latency_ms=latencies.latency_ms if scenario.sends_rate and not is_by_tokens else None,
        ttft_ms=latencies.ttft_ms if scenario.sends_rate and is_by_tokens else None,
        tpot_ms=latencies.tpot_ms if scenario.sends_rate and is_by_tokens else None,
        equal_issue=rules.equal_issue,
        tokens=rules.tokens,
        seeds=rules.round.seeds.normal,
    )


def _min_duration_ms(rules: WorkloadRules, tier: Tier) -> int:
    return rules.min_duration_ms if tier is Tier.VALID else min(tier.min_duration_ms, rules.min_duration_ms)


def _min_query_count(rules: WorkloadRules, official: int, tier: Tier, scenario: Scenario) -> int:
    """Return the tier's number where it has one; a valid run sends no fewer than the rules ask for.

    The numbers are for the official percentiles: at another one, own rules want as many as early stopping needs there.
    """
    usual = rules.round.rules_of_scenario(scenario).percentile
    if not rules.is_official and scenario.percentile and scenario.percentile != usual:
        return queries_needed(0 if scenario.sends_rate else 1, scenario.percentile)
    count = rules.min_query_count.get(scenario.official, official)
    least = _rows()[tier].min_query_count.get(scenario.loadgen, count)
    return max(count, least) if tier is Tier.VALID else least


def _offline_min_samples(rules: WorkloadRules, row: _TierRow, dataset: Dataset) -> int:
    count = rules.offline_min_samples or dataset.performance_count
    return min(dataset.performance_count, count) if row.offline_min_samples == "performance set" else count


@dataclass(frozen=True, slots=True, kw_only=True)
class _TierRow:
    """A tier in ``tiers.toml``."""

    reason: str
    min_duration_ms: int = OFFICIAL_MIN_DURATION_MS
    offline_min_samples: str
    min_query_count: Mapping[str, int]
    """By LoadGen's name of the scenario; the rules' where it is missing."""


@cache
def _rows() -> Mapping[Tier, _TierRow]:
    table = tomllib.loads(resources.files("mlbench.rules").joinpath("tiers.toml").read_text(encoding="utf-8"))
    return {Tier(name): _TierRow(**row) for name, row in table.items()}
