"""What a round asks of a workload, as facts in words, each with its source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mlbench.contracts.metric import Target
from mlbench.rules.official import WorkloadRules


class RuleFact(NamedTuple):
    """One fact."""

    group: str
    """What it is about: ``workload``, ``targets``, a scenario's name, ``round``."""
    name: str
    value: str
    """With its unit."""
    source: str


def facts_of_rules(rules: WorkloadRules) -> Iterator[RuleFact]:
    """Yield the facts of a workload in its round: data set, entries, targets, then each scenario, then the round's."""
    source = rules.source or f"rules of the workload {rules.name}"
    for name, value in (*_data(rules), *_entries(rules)):
        yield RuleFact("workload", name, value, source)
    for target in (*rules.targets, *rules.upper_limits):
        label = f"{target.score} at {target.name}" if target.name else target.score
        yield RuleFact("targets", label, _bounds(target), source)
    for scenario in rules.scenarios:
        yield from _scenario(rules, scenario, source)
    yield from _round(rules)


def _data(rules: WorkloadRules) -> Iterator[tuple[str, str]]:
    counts = {
        "samples": rules.samples,
        "performance sample count": rules.performance_sample_count,
        "least samples when all at once": rules.offline_min_samples,
    }
    yield from ((name, f"{count:,}") for name, count in counts.items() if count)
    for scenario, count in rules.accuracy_samples.items():
        yield f"samples of the accuracy test{f' in {scenario}' if scenario else ''}", f"{count:,}"
    if rules.equal_issue:
        yield "equal issue", "every loaded sample is sent equally often"
    if rules.tokens != "none":
        yield "tokens", f"{rules.tokens}{f', {rules.tokens_per_sample} a sample' if rules.tokens_per_sample else ''}"


def _entries(rules: WorkloadRules) -> Iterator[tuple[str, str]]:
    for category, required in rules.category_scenarios.items():
        any_of = rules.any_of.get(category, ())
        also = f", and {' or '.join(any_of)} or both" if any_of else ""
        yield f"scenarios for {category}", f"{', '.join(required)}{also}"
    if rules.scenarios_of_both is not None:
        also = f", and {' or '.join(rules.any_of_both)} or both" if rules.any_of_both else ""
        yield "scenarios for both categories", f"{', '.join(rules.scenarios_of_both)}{also}"
    for variant, categories in rules.variants.items():
        yield f"variant {variant}", f"{', '.join(categories)}, in the folder {rules.model_of(variant)}"
    if rules.is_official:
        yield "compliance tests", ", ".join(rules.compliance) or "none"


def _bounds(target: Target) -> str:
    lower = "" if target.lower is None else f"at least {target.lower:.10g}"
    upper = "" if target.upper is None else f"at most {target.upper:.10g}"
    return " and ".join(filter(None, (lower, upper)))


def _scenario(rules: WorkloadRules, name: str, source: str) -> Iterator[RuleFact]:
    found, limits = rules.round.scenarios[name], rules.latencies_in(name)
    if found.loadgen != name:
        yield RuleFact(name, "scenario of LoadGen", found.loadgen, found.source)
    if found.samples_per_query:
        yield RuleFact(name, "samples per query", str(found.samples_per_query), found.source)
    own = rules.min_query_count.get(name)
    yield RuleFact(name, "least queries", f"{own or found.min_query_count:,}", source if own else found.source)
    percentile, from_workload = rules.percentiles.get(name, found.percentile), name in rules.percentiles
    if percentile:
        yield RuleFact(name, "percentile", f"{100 * percentile:g}", source if from_workload else found.source)
    tokens = {"time to first token": limits.ttft_ms, "time per output token": limits.tpot_ms}
    for what, limit in {"latency": limits.latency_ms, **tokens}.items():
        if limit:
            yield RuleFact(name, f"limit of {what}", f"{limit:,} ms", source)
    if key := rules.result_keys.get(name) or rules.token_key(name):
        yield RuleFact(name, "result in the log", key, source)


def _round(rules: WorkloadRules) -> Iterator[RuleFact]:
    of = rules.round
    yield RuleFact("round", "least duration", f"{rules.min_duration_ms:,} ms", of.sources_of["durations"])
    seeds = of.seeds.normal
    for name in ("qsl", "sample_index", "schedule"):
        yield RuleFact("round", f"seed {name}", str(getattr(seeds, name)), of.sources_of["seeds"])
    yield RuleFact("round", "seed of logged replies", str(of.seeds.accuracy_log), of.sources_of["seeds"])
    yield from (RuleFact("documents", name, text, "") for name, text in of.sources.items())
