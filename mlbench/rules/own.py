"""The rules of a workload: those of one of the nine, or its own."""

from __future__ import annotations

from mlbench.contracts.rules import Rules
from mlbench.contracts.workload import Workload
from mlbench.rules.official import WorkloadRules, official_rules


def rules_of(workload: Workload) -> WorkloadRules:
    """Return the rules that a workload's runs are held to.

    Raises:
        UsageError: it names rules that v4.1 does not have.
    """
    rules = workload.rules
    return _own_rules(workload.name, rules) if isinstance(rules, Rules) else official_rules(rules)


def _own_rules(name: str, rules: Rules) -> WorkloadRules:
    return WorkloadRules(
        name=name,
        samples=0,
        performance_sample_count=rules.performance_sample_count or 0,
        offline_min_samples=rules.offline_min_samples or 0,
        server_latency_ms=rules.server_latency_ms,
        ttft_ms=rules.ttft_ms,
        tpot_ms=rules.tpot_ms,
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
