"""The rules of a workload: those that a round has for it, or its own."""

from __future__ import annotations

from mlbench.contracts.rules import Rules
from mlbench.contracts.workload import Workload
from mlbench.rules.official import AT_A_RATE, Round, WorkloadRules, round_named
from mlbench.rules.round_files import usual_round_name
from mlbench.rules.round_parts import LatencyLimits


def rules_of(workload: Workload, of: Round) -> WorkloadRules:
    """Return the rules that a workload's runs are held to in a round.

    Raises:
        UsageError: it names rules that the round does not have.
    """
    rules = workload.rules
    return _own_rules(workload.name, rules, of) if isinstance(rules, Rules) else of.rules(rules)


def usual_round(workload: Workload) -> Round:
    """Return the round of a workload where none is named: the default one, or the first that has the workload."""
    return round_named(usual_round_name(workload))


def _own_rules(name: str, rules: Rules, of: Round) -> WorkloadRules:
    limits = LatencyLimits(latency_ms=rules.server_latency_ms, ttft_ms=rules.ttft_ms, tpot_ms=rules.tpot_ms)
    return WorkloadRules(
        round=of,
        name=name,
        samples=0,
        performance_sample_count=rules.performance_sample_count or 0,
        offline_min_samples=rules.offline_min_samples or 0,
        latencies={AT_A_RATE: limits},
        equal_issue=rules.equal_issue,
        tokens=rules.tokens,
        tokens_per_sample=rules.tokens_per_sample,
        compliance=(),
        scenarios=rules.scenarios,
        category_scenarios={},
        variants={},
        targets=rules.targets,
        min_duration_ms=rules.min_duration_ms,
        min_query_count=rules.min_query_count,
        is_official=False,
    )
