"""The samples and the result of a performance test, from LoadGen's log.

Where samples are sent equally often, Offline fills its query up to whole passes over the loaded set. LoadGen before 5.0
logs the number without the filling, so the rate decides: samples/s times the latest sample's latency are the samples
that were sent. Source: LoadGen's loadgen.cc and results.cc.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlbench.contracts.scenario import Scenario
from mlbench.loadgen.logs import DetailLog, result_of
from mlbench.records.run_record import ResultRecord
from mlbench.rules.official import WorkloadRules

_PER_QUERY = "samples_per_query"


def count_samples(detail: DetailLog, rules: WorkloadRules, scenario: Scenario) -> dict[str, int]:
    """Return how many samples the dataset has and how many were sent, as far as the log says."""
    found = {"dataset": detail.values.get("qsl_reported_total_count")}
    per_query = _samples_per_query(detail, rules, scenario)
    if per_query is not None and isinstance(queries := detail.values.get("result_query_count"), int):
        found["issued"] = queries * per_query
    return {name: count for name, count in found.items() if isinstance(count, int)}


def make_result(
    detail: DetailLog, rules: WorkloadRules, scenario: Scenario, samples: Mapping[str, int]
) -> ResultRecord:
    """Return the result of a test; the samples of Offline's one query are those that were sent.

    Raises:
        DataError: the log does not hold the official metric.
    """
    result = result_of(detail, scenario, token_key=rules.token_key_of(scenario))
    counts = dict(result.counts)
    if scenario.sends_all_at_once and _PER_QUERY in counts and "issued" in samples:
        counts[_PER_QUERY] = samples["issued"]
    return ResultRecord.model_validate({**dataclasses.asdict(result), "counts": counts})


def _samples_per_query(detail: DetailLog, rules: WorkloadRules, scenario: Scenario) -> int | None:
    logged = detail.values.get("generated_samples_per_query", detail.values.get("effective_samples_per_query"))
    loaded = detail.values.get("effective_performance_sample_count")
    if not isinstance(logged, int):
        return None
    is_filled = rules.equal_issue and scenario.sends_all_at_once
    if not is_filled or not isinstance(loaded, int) or loaded < 1:
        return logged
    filled = -(-logged // loaded) * loaded
    sent = _number(detail, scenario.pattern.rate_key) * _number(detail, "result_max_latency_ns") / 1e9
    return min((logged, filled), key=lambda count: abs(count - sent)) if sent else filled


def _number(detail: DetailLog, key: str) -> float:
    """Return a value as a float, 0 where the log has none; a text times a number would be a long text."""
    return float(detail.values.get(key, 0))
