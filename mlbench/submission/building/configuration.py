"""``mlperf.conf`` and ``user.conf``: how LoadGen was driven, by the record of the run.

mlbench sets LoadGen's settings one by one and reads no such file; these say the same in LoadGen's own form.
Source: LoadGen's test_settings_internal.cc, for the keys.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlbench.contracts.load_pattern import LOAD_PATTERNS
from mlbench.records.run_record import RunRecord
from mlbench.rules.official import round_named

_NS_PER_MS = 10**6
_KEYS = {
    "server_target_qps": "target_qps",
    "offline_expected_qps": "target_qps",
    "server_coalesce_queries": "coalesce_queries",
    "single_stream_expected_latency_ns": "target_latency",
    "multi_stream_expected_latency_ns": "target_latency",
    "multi_stream_samples_per_query": "samples_per_query",
}
"""LoadGen's key in the file, by the setting; a latency there is in milliseconds."""


def mlperf_conf(record: RunRecord) -> str:
    """Return ``mlperf.conf``: what the rules set."""
    limits, scenario = record.limits, record.scenario_facts.loadgen
    lines = [f"# LoadGen {record.loadgen_version}, run {record.run_id}: what the rules set."]
    for name, value in record.seeds.model_dump().items() if record.seeds else ():
        key = "qsl_rng_seed" if name == "qsl" else f"{name}_rng_seed"
        lines.append(f"{_model(record)}.*.{key} = {value}")
    lines.append(f"{_model(record)}.*.sample_concatenate_permutation = {int(limits.get('equal_issue') is True)}")
    if record.scenario_facts.sends_rate:
        lines += _latency_lines(record, scenario)
    return "\n".join(lines) + "\n"


def _model(record: RunRecord) -> str:
    """Return LoadGen's name of what a run measured: the workload's, in some scenarios with a suffix."""
    of = round_named(record.round)
    name = next((each.name for each in of.workloads.values() if each.workload == record.workload), record.workload)
    scenario = of.scenarios.get(record.scenario)
    return name + (scenario.configuration_suffix if scenario else "")


def _latency_lines(record: RunRecord, scenario: str) -> Iterator[str]:
    named = {"server_latency_ms": "target_latency", "ttft_ms": "ttft_latency", "tpot_ms": "tpot_latency"}
    for name, key in named.items():
        if (value := record.limits.get(name)) is not None:
            yield f"{_model(record)}.{scenario}.{key} = {value}"


def user_conf(record: RunRecord) -> str:
    """Return ``user.conf``: what the run set."""
    scenario, load = record.scenario_facts.loadgen, record.load
    values = {
        "min_duration": load.get("min_duration_ms"),
        "min_query_count": load.get("min_query_count"),
        "performance_sample_count_override": load.get("performance_sample_count"),
    }
    for name, setting in LOAD_PATTERNS[scenario].settings.items():
        found = load.get(name)
        if isinstance(found, int | float):
            is_time = setting.endswith("_ns")
            values[_KEYS[setting]] = f"{found / _NS_PER_MS:.9g}" if is_time else found
    lines = [f"# LoadGen {record.loadgen_version}, run {record.run_id}: what the run set."]
    lines += [
        f"{_model(record)}.{scenario}.{key} = {int(value) if isinstance(value, bool) else value}"
        for key, value in values.items()
        if value is not None
    ]
    return "\n".join(lines) + "\n"
