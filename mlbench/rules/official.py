"""The rounds of MLPerf Inference as typed rules, from the files in ``rounds``, where each table names its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any

from mlbench.contracts.load_pattern import LOAD_PATTERNS, Arrivals
from mlbench.contracts.metric import Target
from mlbench.contracts.rules import DEFAULT_ROUND, Tokens
from mlbench.contracts.scenario import Scenario
from mlbench.errors import MlbenchError
from mlbench.rules import round_files
from mlbench.rules import round_parts as parts
from mlbench.rules.early_stopping import CONFIDENCE
from mlbench.rules.round_parts import (
    Category,
    CheckerScope,
    ComplianceRules,
    EarlyStopping,
    EndpointResults,
    LatencyLimits,
    OfficialSeeds,
    RequiredFiles,
    ScenarioRules,
    SummaryUnits,
    TreeLayout,
    without_source,
)
from mlbench.rules.target_rows import TargetRow, upper_limits

AT_A_RATE = next(name for name, each in LOAD_PATTERNS.items() if each.arrivals is Arrivals.AT_A_RATE)
"""LoadGen's scenario whose latencies are limited."""

_SEEDS_LOGGED = tuple(f"effective_{name}_rng_seed" for name in ("qsl", "sample_index", "schedule"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRules:
    """A round's values for one workload, by LoadGen's name. In a workload's own rules 0 stands for no value."""

    round: Round = field(repr=False, compare=False)
    """The round; of a workload's own rules the one whose seeds and scenarios its runs have."""
    name: str
    source: str = ""
    samples: int
    """Size of the official dataset: the samples an accuracy run sends, unless `accuracy_samples` says otherwise."""
    accuracy_samples: Mapping[str, int] = field(default_factory=dict)
    """Samples of the accuracy test by scenario, where they are not `samples`; the key ``""`` is for all others."""
    performance_sample_count: int
    """Minimum number of samples kept loaded while measuring."""
    offline_min_samples: int
    """Minimum number of samples in Offline's one query."""
    latencies: Mapping[str, LatencyLimits]
    """Limits by scenario; one without limits is missing."""
    equal_issue: bool
    """Whether every loaded sample must be sent equally often."""
    tokens: Tokens
    tokens_per_sample: int | None
    """The fixed number of inferred tokens."""
    compliance: tuple[str, ...]
    """Compliance tests required by the closed division."""
    scenarios: tuple[str, ...]
    """Scenarios that any kind of system has for this workload, in the round's order."""
    category_scenarios: Mapping[Category, tuple[str, ...]]
    """Required scenarios of a closed submission by category; a category without the workload is missing."""
    any_of: Mapping[Category, tuple[str, ...]] = field(default_factory=dict)
    """Beside the required scenarios at least one of these."""
    scenarios_of_both: tuple[str, ...] | None = None
    """Required scenarios of a system of both categories; None: those of both."""
    any_of_both: tuple[str, ...] = ()
    """Beside those at least one of these."""
    variants: Mapping[str, tuple[Category, ...]]
    """Accuracy variants, the least strict first, and the categories that take each."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Names of the folders in a submission by variant, where they are not the usual ones; see `model_of`."""
    target_rows: tuple[TargetRow, ...] = ()
    targets: tuple[Target, ...]
    """Targets of all variants; those beyond the first are only reported."""
    upper_limits: tuple[Target, ...] = ()
    """Upper bounds of scores without a lower one, which only some results have."""
    min_duration_ms: int
    """The least duration of a valid run."""
    min_query_count: Mapping[str, int] = field(default_factory=dict)
    """By scenario; without an entry the scenario's."""
    percentiles: Mapping[str, float] = field(default_factory=dict)
    """Percentile of the latency by scenario; without an entry the scenario's."""
    result_keys: Mapping[str, str] = field(default_factory=dict)
    """The detail log's key of the result by scenario, where it is not the scenario's."""
    has_loadgen: bool = True
    """Whether LoadGen makes its results, and not a client of endpoints alone."""
    is_official: bool = True

    @property
    def workload(self) -> str:
        """Return the workload's own name."""
        return round_files.own_name(self.name)

    @property
    def server_latency_ms(self) -> int | None:
        """Return Server's limit; None where Server is not defined, or judged by tokens."""
        return self.latencies_in(AT_A_RATE).latency_ms

    @property
    def ttft_ms(self) -> int | None:
        """Return Server's limit of the time to the first token."""
        return self.latencies_in(AT_A_RATE).ttft_ms

    @property
    def tpot_ms(self) -> int | None:
        """Return Server's limit of the time per output token."""
        return self.latencies_in(AT_A_RATE).tpot_ms

    def latencies_in(self, scenario: str) -> LatencyLimits:
        """Return the limits of a scenario."""
        return self.latencies.get(scenario, LatencyLimits())

    def accuracy_samples_in(self, scenario: str) -> int:
        """Return the number of samples that the accuracy test of a scenario sends."""
        return self.accuracy_samples.get(scenario, self.accuracy_samples.get("", self.samples))

    def targets_in(self, scenario: str) -> tuple[Target, ...]:
        """Return the targets in a scenario, which may have references of its own."""
        return tuple(target for row in self.target_rows for target in row.targets(self.variants, scenario))

    def adapt(self, scenario: Scenario) -> Scenario:
        """Return a scenario as it is judged for this workload, which may have another percentile and result."""
        name = scenario.official
        if name not in self.percentiles and name not in self.result_keys:
            return scenario
        return replace(
            scenario,
            percentile=self.percentiles.get(name, scenario.percentile),
            result_key=self.result_keys.get(name, scenario.result_key),
        )

    def model_of(self, variant: str) -> str:
        """Return the name of the model's folder in a submission: ``bert-99.9``, ``resnet``."""
        usual = f"{self.name}-{variant}" if len(self.variants) > 1 and variant else self.name
        return self.models.get(variant or next(iter(self.variants), ""), usual)

    def token_key(self, scenario: str) -> str | None:
        """Return the detail log's key of the token rate that is reported; None: the scenario's own result is."""
        return self.round.token_keys.get(self.tokens, {}).get(scenario)

    def token_key_of(self, scenario: Scenario) -> str | None:
        """Return the same for a scenario, which may have a key of its own where tokens are measured."""
        own = scenario.token_result_key if self.tokens is Tokens.MEASURED else ""
        return own or self.token_key(scenario.official)


@dataclass(frozen=True, kw_only=True, eq=False)
class Round:
    """One round of MLPerf Inference: everything that its rules, its LoadGen configuration and its checker say."""

    name: str
    """``v5.1``."""
    deadline: date
    """Last day of submissions."""
    sources: Mapping[str, str]
    """Documents and commits that the numbers come from."""
    sources_of: Mapping[str, str]
    """Places in them, by table: ``seeds``."""
    min_duration_ms: int
    early_stopping: EarlyStopping
    seeds: OfficialSeeds
    scenarios: Mapping[str, ScenarioRules]
    """By name, in the order in which reports list them."""
    token_keys: Mapping[str, Mapping[str, str]]
    """The detail log's key of the token rate, by what is said of tokens and by scenario."""
    layout: TreeLayout
    files: RequiredFiles
    checks: CheckerScope
    units: SummaryUnits
    compliance: ComplianceRules
    endpoints: EndpointResults
    rows: Mapping[str, Mapping[str, Any]] = field(repr=False)
    """The workloads' tables."""

    @cached_property
    def workloads(self) -> Mapping[str, WorkloadRules]:
        """The rules of all workloads, by LoadGen's name."""
        return MappingProxyType({name: _workload(self, name, row) for name, row in self.rows.items()})

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """The compliance tests that any workload requires."""
        return tuple(sorted({test for rules in self.workloads.values() for test in rules.compliance}))

    def rules(self, workload: str) -> WorkloadRules:
        """Return the rules of a workload by LoadGen's name for it: ``bert``, ``3d-unet``.

        Raises:
            UsageError: the round has no such workload; the hint says which rounds do.
        """
        if workload not in self.rows:
            round_files.official_scenarios(workload, self.name)  # raises
        return self.workloads[workload]

    def rules_of_scenario(self, scenario: Scenario) -> ScenarioRules:
        """Return the rules of a scenario: its own official ones, or where the round has none LoadGen's."""
        return self.scenarios.get(scenario.official) or self.scenarios[scenario.loadgen]

    def __str__(self) -> str:
        return self.name


def round_named(name: str) -> Round:
    """Return a round by its name: ``v5.1``.

    Raises:
        UsageError: there is no such round, or its file is no description of one; the message names it.
    """
    return _round_in(round_files.file_of(name), name)


def default_round() -> Round:
    """Return the round that holds where none is named."""
    return round_named(DEFAULT_ROUND)


def recognise_round(detail: Mapping[str, object]) -> str | None:
    """Return the name of the round that a detail log's seeds belong to; None where no round known here has them.

    Each round draws three seeds of its own. One of them is enough: no two rounds share any.
    """
    found = {seed for seed in map(detail.get, _SEEDS_LOGGED) if isinstance(seed, int)}
    for round_name in round_files.known_rounds():
        try:
            seeds = round_named(round_name).seeds
        except MlbenchError:  # a broken file of the user's own is an error where that round is asked for
            continue
        own = {round_name: (seeds.normal.qsl, seeds.normal.sample_index, seeds.normal.schedule)}
        for name, theirs in {**own, **seeds.others}.items():
            if not found.isdisjoint(theirs):
                return name
    return None


def official_rules(name: str, of: Round | None = None) -> WorkloadRules:
    """Return the rules of a workload in a round; None: in the default one. Raises as `Round.rules`."""
    return (of or default_round()).rules(name)


def rescaled_targets(
    rules: WorkloadRules,
    reference: Callable[[str], float],
    *,
    factors: Mapping[str, float] = MappingProxyType({}),
    upper_factors: Mapping[str, float] = MappingProxyType({}),
) -> tuple[Target, ...]:
    """Return a workload's targets around other reference scores than the official ones, such as a mini model's.

    Args:
        rules: of a workload whose targets are shares of reference scores.
        reference: returns what was reached instead, given the official name of a score.
        factors: of scores that must reach another share of their reference than officially.
        upper_factors: of scores that must not exceed a share of their reference, though officially they may.
    """
    rows = (row.rescaled(rules.variants, reference, factors, upper_factors) for row in rules.target_rows)
    return tuple(target for targets in rows for target in targets)


@cache
def _round_in(file: str, name: str) -> Round:
    tables = round_files.read_tables(name)
    with round_files.refuse_bad_round(file):
        found = _round(name, tables)
        if not found.workloads:
            raise ValueError("it has no workloads")
        if (found.early_stopping.confidence, found.early_stopping.tolerance) != (CONFIDENCE, 0):
            raise ValueError(f"early_stopping is not LoadGen's: confidence {CONFIDENCE}, tolerance 0")
        if not round_files.is_shipped(file):
            parts.check_types(found)
            for rules in found.workloads.values():
                parts.check_types(rules)
    return found


def _round(name: str, tables: round_files.RoundTables) -> Round:
    if not isinstance(tables.deadline, date):
        raise ValueError(f"deadline is {tables.deadline!r}, not a date")
    return Round(
        name=name,
        deadline=tables.deadline,
        sources=tables.sources,
        sources_of={
            name: table.get("source", "")
            for name, table in tables._asdict().items()
            if isinstance(table, Mapping) and name not in ("workloads", "scenarios", "sources")
        },
        min_duration_ms=_whole(tables.durations, "min_duration_ms"),
        early_stopping=parts.fill(EarlyStopping, tables.early_stopping),
        seeds=parts.seeds_of(tables.seeds),
        scenarios={
            name: parts.fill(ScenarioRules, {"name": name, "loadgen": name, **row})
            for name, row in tables.scenarios.items()
        },
        token_keys={kind: without_source(row) for kind, row in tables.results.items()},
        layout=parts.fill(TreeLayout, tables.layout),
        files=parts.fill(parts.RequiredFiles, tables.files),
        checks=parts.fill(parts.CheckerScope, tables.checks),
        units=parts.fill(parts.SummaryUnits, tables.units),
        compliance=parts.compliance_of(tables.compliance),
        endpoints=parts.fill(parts.EndpointResults, tables.endpoints),
        rows=tables.workloads,
    )


def _workload(of: Round, name: str, row: Mapping[str, Any]) -> WorkloadRules:
    variants = {variant: tuple(map(Category, categories)) for variant, categories in row["variants"].items()}
    target_rows = tuple(parts.fill(TargetRow, each) for each in row["targets"])
    accuracy = row.get("accuracy_samples", {})
    both = row.get("scenarios_of_both")
    return WorkloadRules(
        round=of,
        name=name,
        source=row.get("source", ""),
        samples=_whole(row, "samples"),
        accuracy_samples=accuracy if isinstance(accuracy, Mapping) else {"": accuracy},
        performance_sample_count=_whole(row, "performance_sample_count"),
        offline_min_samples=_whole(row, "offline_min_samples"),
        latencies=_latencies(of, row),
        equal_issue=row.get("equal_issue", False),
        tokens=Tokens(row.get("tokens", "none")),
        tokens_per_sample=row.get("tokens_per_sample"),
        compliance=tuple(row.get("compliance", ())),
        scenarios=round_files.scenarios_of_row(tuple(of.scenarios), row),
        category_scenarios={Category(category): tuple(names) for category, names in row["scenarios"].items()},
        any_of={Category(category): tuple(names) for category, names in row.get("any_of", {}).items()},
        scenarios_of_both=None if both is None else tuple(both),
        any_of_both=tuple(row.get("any_of_both", ())),
        variants=variants,
        models=row.get("models", {}),
        target_rows=target_rows,
        targets=tuple(target for each in target_rows for target in each.targets(variants)),
        upper_limits=upper_limits(row.get("upper_limits", {}), variants),
        min_duration_ms=_whole(row, "min_duration_ms", of.min_duration_ms),
        min_query_count=row.get("min_query_count", {}),
        percentiles=row.get("percentile", {}),
        result_keys=row.get("result_keys", {}),
        has_loadgen=row.get("loadgen", True),
    )


def _latencies(of: Round, row: Mapping[str, Any]) -> dict[str, LatencyLimits]:
    """Return limits by scenario: ``ttft_ms`` is of LoadGen's own, ``<scenario>_ttft_ms`` of one that the round adds."""
    found = {}
    for scenario, rules in of.scenarios.items():
        if rules.loadgen == AT_A_RATE:
            prefix = "" if scenario == AT_A_RATE else f"{scenario.lower()}_"
            names = (f"{scenario.lower()}_latency_ms", f"{prefix}ttft_ms", f"{prefix}tpot_ms")
            latency_ms, ttft_ms, tpot_ms = (_whole(row, name) if name in row else None for name in names)
            found[scenario] = LatencyLimits(latency_ms=latency_ms, ttft_ms=ttft_ms, tpot_ms=tpot_ms)
    return found


def _whole(row: Mapping[str, Any], key: str, default: int | None = None) -> int:
    value = row[key] if default is None else row.get(key, default)
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} is {value!r}, not a whole number")
    return value
