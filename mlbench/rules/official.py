"""The numbers of MLPerf Inference v4.1, from ``v4_1.toml``, where each table names its source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Self

from mlbench.contracts.metric import Target
from mlbench.contracts.rules import Tokens
from mlbench.contracts.scenario import Scenario
from mlbench.rules.official_table import official_scenarios, read_table
from mlbench.rules.targets import share_targets


class Category(StrEnum):
    """The category of a submission's system; each requires its own scenarios."""

    DATACENTER = "datacenter"
    EDGE = "edge"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSeeds:
    """The three seeds that decide which samples a run sends, in which order and when."""

    qsl: int
    sample_index: int
    schedule: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialSeeds:
    """The seeds of v4.1."""

    normal: RoundSeeds
    test05: RoundSeeds
    accuracy_log: int
    """Picks the replies that TEST01 and TEST06 log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRules:
    """The rules' values for one of LoadGen's four scenarios."""

    name: str
    samples_per_query: int | None
    """None in Offline, whose one query holds them all."""
    min_query_count: int
    percentile: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRules:
    """The rules' values for one workload, by LoadGen's name. In a workload's own rules 0 stands for no value."""

    name: str
    samples: int
    """Size of the official dataset: the samples an accuracy run sends."""
    performance_sample_count: int
    """Minimum number of samples kept loaded while measuring."""
    offline_min_samples: int
    """Minimum number of samples in Offline's one query."""
    server_latency_ms: int | None
    """None where Server is not defined, or judged by tokens."""
    ttft_ms: int | None
    tpot_ms: int | None
    equal_issue: bool
    """Whether every loaded sample must be sent equally often."""
    tokens: Tokens
    tokens_per_sample: int | None
    """The fixed number of inferred tokens."""
    compliance: tuple[str, ...]
    """Compliance tests required by the closed division."""
    scenarios: tuple[str, ...]
    """Scenarios that any category defines for this workload, in LoadGen's order."""
    category_scenarios: Mapping[Category, tuple[str, ...]]
    """Required scenarios of a closed submission by category; a category without the workload is missing."""
    variants: Mapping[str, tuple[Category, ...]]
    """Accuracy variants, the least strict first, and the categories that take each."""
    targets: tuple[Target, ...]
    """Targets of all variants; those beyond the first are only reported."""
    min_duration_ms: int
    """The least duration of a valid run."""
    min_query_count: Mapping[str, int] = field(default_factory=dict)
    """By scenario, in a workload's own rules; without an entry the scenario's."""
    is_official: bool = True

    def token_key(self, scenario: str) -> str | None:
        """Return the detail log's key of the token rate that is reported; None: the scenario's own result is."""
        return _rules().token_keys.get(self.tokens, {}).get(scenario)

    def token_key_of(self, scenario: Scenario) -> str | None:
        """Return the same for a scenario, which may have a key of its own where tokens are measured."""
        own = scenario.token_result_key if self.tokens is Tokens.MEASURED else ""
        return own or self.token_key(scenario.loadgen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TargetRow:
    """A score that a workload must reach, as the file has it, by accuracy variant."""

    score: str
    reference: float
    factors: Mapping[str, float]
    """Shares of the reference; empty where the bounds are given instead."""
    ranges: Mapping[str, tuple[float, float]]
    """Lower and upper bounds; empty where the factors are given instead."""
    upper_factor: float | None
    """Share of the reference that must not be exceeded; None: no upper bound."""
    lower_is_better: bool

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return a target of the file."""
        return cls(
            score=row["score"],
            reference=row["reference"],
            factors=row.get("factors", {}),
            ranges={name: (lower, upper) for name, (lower, upper) in row.get("ranges", {}).items()},
            upper_factor=row.get("upper_factor"),
            lower_is_better=row.get("lower_is_better", False),
        )

    def targets(self, variants: Iterable[str]) -> tuple[Target, ...]:
        """Return one target per accuracy variant."""
        if not self.ranges:
            factors = {name: self.factors[name] for name in variants}
            return share_targets(self.score, self.reference, factors, self.upper_factor)
        return tuple(
            Target(
                score=self.score,
                reference=self.reference,
                lower=self.ranges[name][0],
                upper=self.ranges[name][1],
                name=name,
                required=position == 0,
                lower_is_better=self.lower_is_better,
            )
            for position, name in enumerate(variants)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfficialRules:
    """All of the file."""

    scenarios: Mapping[str, ScenarioRules]
    workloads: Mapping[str, WorkloadRules]
    target_rows: Mapping[str, tuple[_TargetRow, ...]]
    """By workload."""
    token_keys: Mapping[str, Mapping[str, str]]
    """The detail log's key of the token rate, by what is said of tokens and by scenario."""
    seeds: OfficialSeeds
    min_duration_ms: int
    early_stopping_confidence: float


def official_rules(name: str) -> WorkloadRules:
    """Return the rules of a workload by LoadGen's name for it: ``bert``, ``3d-unet``.

    Raises:
        UsageError: v4.1 has no such workload.
    """
    official_scenarios(name)  # raises
    return _rules().workloads[name]


def rescaled_targets(
    name: str,
    reference: Callable[[str], float],
    *,
    factors: Mapping[str, float] = MappingProxyType({}),
    upper_factors: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Target, ...]:
    """Return a workload's targets around other reference scores than the official ones, such as a mini model's.

    Args:
        name: LoadGen's, of a workload whose targets are shares of reference scores.
        reference: returns what was reached instead, given the official name of a score.
        factors: of scores that must reach another share of their reference than officially.
        upper_factors: of scores that must not exceed a share of their reference, though officially they may.

    Raises:
        UsageError: v4.1 has no such workload.
    """
    variants = official_rules(name).variants
    targets: list[Target] = []
    for row in _rules().target_rows[name]:
        own = {variant: factors.get(row.score, row.factors[variant]) for variant in variants}
        upper = upper_factors.get(row.score, row.upper_factor)
        targets += share_targets(row.score, reference(row.score), own, upper)
    return tuple(targets)


def official_workloads() -> tuple[str, ...]:
    """Return LoadGen's names of the nine workloads."""
    return tuple(_rules().workloads)


def scenario_rules(name: str) -> ScenarioRules:
    """Return the rules of one of LoadGen's four scenarios.

    Raises:
        KeyError: LoadGen has no such scenario.
    """
    return _rules().scenarios[name]


def _scenario(name: str, row: Mapping[str, Any]) -> ScenarioRules:
    return ScenarioRules(
        name=name,
        samples_per_query=row.get("samples_per_query"),
        min_query_count=row["min_query_count"],
        percentile=row.get("percentile"),
    )


def _seeds(row: Mapping[str, Any]) -> RoundSeeds:
    return RoundSeeds(qsl=row["qsl"], sample_index=row["sample_index"], schedule=row["schedule"])


def _workload(name: str, row: Mapping[str, Any], min_duration_ms: int) -> WorkloadRules:
    return WorkloadRules(
        name=name,
        samples=row["samples"],
        performance_sample_count=row["performance_sample_count"],
        offline_min_samples=row["offline_min_samples"],
        server_latency_ms=row.get("server_latency_ms"),
        ttft_ms=row.get("ttft_ms"),
        tpot_ms=row.get("tpot_ms"),
        equal_issue=row.get("equal_issue", False),
        tokens=Tokens(row.get("tokens", "none")),
        tokens_per_sample=row.get("tokens_per_sample"),
        compliance=tuple(row.get("compliance", ())),
        scenarios=official_scenarios(name),
        category_scenarios={Category(category): tuple(names) for category, names in row["scenarios"].items()},
        variants={variant: tuple(map(Category, categories)) for variant, categories in row["variants"].items()},
        targets=tuple(target for each in row["targets"] for target in _TargetRow.of(each).targets(row["variants"])),
        min_duration_ms=min_duration_ms,
    )


@cache
def _rules() -> _OfficialRules:
    table = read_table()
    seeds, min_duration_ms = table.seeds, table.durations["min_duration_ms"]
    return _OfficialRules(
        scenarios={name: _scenario(name, row) for name, row in table.scenarios.items()},
        workloads={name: _workload(name, row, min_duration_ms) for name, row in table.workloads.items()},
        target_rows={name: tuple(map(_TargetRow.of, row["targets"])) for name, row in table.workloads.items()},
        token_keys=table.results,
        seeds=OfficialSeeds(
            normal=_seeds(seeds["normal"]),
            test05=_seeds(seeds["test05"]),
            accuracy_log=seeds["compliance"]["accuracy_log"],
        ),
        min_duration_ms=min_duration_ms,
        early_stopping_confidence=table.early_stopping["confidence"],
    )


SEEDS = _rules().seeds

OFFICIAL_MIN_DURATION_MS = _rules().min_duration_ms

EARLY_STOPPING_CONFIDENCE = _rules().early_stopping_confidence
