"""The samples and the result of a performance test, from LoadGen's log.

Where samples are sent equally often, Offline fills its query up to whole passes over the loaded set. LoadGen before 5.0
logs the number without the filling, so the rate decides: samples/s times the latest sample's latency are the samples
that were sent. Source: LoadGen's loadgen.cc and results.cc.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError
from mlbench.loadgen.logs import DetailLog, LoadgenResult, result_of
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
    detail: DetailLog, rules: WorkloadRules, scenario: Scenario, samples: Mapping[str, int], *, measured: Scenario
) -> ResultRecord:
    """Return the result of a test; the samples of Offline's one query are those that were sent.

    Args:
        detail: the log of the performance test.
        rules: of the workload.
        scenario: of the result.
        samples: as `count_samples` returns them.
        measured: the scenario of the log; where it is another one, the result is inferred.

    Raises:
        DataError: the log does not hold the official metric.
    """
    result = result_of(detail, measured, token_key=rules.token_key_of(measured))
    if scenario != measured:
        result = _infer(result, detail, rules.round.rules_of_scenario(scenario).samples_per_query, scenario, measured)
    counts = dict(result.counts)
    if scenario.sends_all_at_once and _PER_QUERY in counts and "issued" in samples:
        counts[_PER_QUERY] = samples["issued"]
    return ResultRecord.model_validate({**dataclasses.asdict(result), "counts": counts})


def _infer(
    result: LoadgenResult, detail: DetailLog, samples_per_query: int | None, scenario: Scenario, measured: Scenario
) -> LoadgenResult:
    """Return the result of a scenario by the log of another one, whose queries were sent one by one.

    Source: submission checkers v5.0 to v6.1, ``get_inferred_result``.
    """
    if not scenario.sends_all_at_once:  # the log of single samples has the percentile of MultiStream too
        key, factor = scenario.result_key, float(samples_per_query or 1)
        value = factor * (detail.number(key) or 0)
    elif not measured.has_query_size:
        key = "result_qps_without_loadgen_overhead"
        value = detail.number(key) or 0
    else:
        key = measured.pattern.query_time_key
        duration_ns = detail.number(key) or 0
        value = 1e9 * (detail.number("effective_samples_per_query") or 0) / duration_ns if duration_ns else 0
    if value <= 0:
        raise DataError(f"its log of {measured.name} has no {key}, by which {scenario.name} is inferred.")
    return dataclasses.replace(
        result, value=value, unit=scenario.result_unit, higher_is_better=scenario.higher_is_better
    )


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
