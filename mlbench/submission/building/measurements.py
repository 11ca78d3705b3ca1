"""The folder of an entry that says how it was measured."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlbench.contracts.load_pattern import LOAD_PATTERNS
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.records.environment import Environment
from mlbench.records.job_spec import transform_options
from mlbench.records.run_record import RunRecord
from mlbench.rules.official import round_named
from mlbench.submission.building.entries import BuiltEntry
from mlbench.submission.building.system import System
from mlbench.submission.tree import MLPERF_CONF, USER_CONF, fill_place

_BUILT_IN = ("default", "workload ", "backend ", "scenario ")
"""How the names of layers begin that are mlbench's own."""


def write_measurements(folder: Path, entry: BuiltEntry, system: System) -> None:
    """Write README, description of the implementation, LoadGen's configuration and calibration."""
    record = entry.run.record
    folder.mkdir(parents=True)
    texts = {
        _description_name(entry, system): json.dumps(_implementation(record), indent=2) + "\n",
        "README.md": _readme(entry),
        USER_CONF: user_conf(record),
        **({MLPERF_CONF: mlperf_conf(record)} if MLPERF_CONF in system.round.files.measurements else {}),
        "calibration_process.adoc": _calibration(record),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")


def _description_name(entry: BuiltEntry, system: System) -> str:
    """Return the name of the description: the round's, or one with system, implementation and scenario."""
    required = entry.required
    wanted = fill_place(system.round.layout.implementation, system.name, required.model, required.scenario)
    names = f"_{implementation_name(entry.run.record)}_{entry.required.scenario}"
    return wanted.rpartition("/")[2].replace("*", names)


def implementation_name(record: RunRecord) -> str:
    """Return the name of an implementation: the backend's, in letters that a file name may have."""
    return re.sub(r"[^\w.+-]", "_", f"mlbench-{record.backend}")


def _implementation(record: RunRecord) -> Mapping[str, str]:
    weights = record.settings.get("workload.weights")
    path = weights.value if weights and isinstance(weights.value, str) else ""
    digest = record.fingerprints.get("weights", "")
    return {
        "input_data_types": f"as the data set has them, computed at {record.precision}",
        "retraining": "No",
        "starting_weights_filename": Path(path).name or f"fingerprint {digest or 'unknown'}",
        "weight_data_types": record.precision,
        "weight_transformations": f"by the backend {record.backend} at precision {record.precision}"
        + "".join(f"; {change}" for change in record.changes),
    }


def _readme(entry: BuiltEntry) -> str:
    record = entry.run.record
    settings = [f"- `{key} = {each.value}` ({each.layer})" for key, each in sorted(record.settings.items())]
    software = [f"- {name} {version}" for name, version in sorted(record.environment.libraries.items())]
    audits = (["mlbench", "audit", record.run_id, "--test", test] for test in entry.required.tests)
    tests = "".join(f"{shlex.join([*words, *options_of_nodes(record)])}\n" for words in audits)
    lines = [
        f"# {entry.required.model}, {entry.required.scenario}",
        "",
        "Unverified, not reviewed by MLCommons: written from a stored run.",
        "",
        f"mlbench {record.mlbench_version}, LoadGen {record.loadgen_version}, run `{record.run_id}`.",
        "",
        "```",
        f"{serve_commands(record)}{_command(record)}\n{tests}```",
        "",
        *network_lines(record),
        "## Settings, with where each comes from",
        "",
        *settings,
        "",
        "## Software",
        "",
        *software,
        "",
    ]
    return "\n".join(lines)


def _command(record: RunRecord) -> str:
    """Return the command that makes the run again; settings of files are given on the command line."""
    words = ["mlbench", "run", record.workload, "--backend", record.backend, "--scenario", record.scenario]
    words += ["--round", record.round] if record.round != DEFAULT_ROUND else []
    words += options_of_nodes(record)
    words += ["--profile", record.profile, "--tier", record.tier, "--precision", record.precision]
    words += transform_options(record.transform)
    words += record.entry.options if record.entry else []
    for key, each in sorted(record.settings.items()):
        if each.value is not None and not each.layer.startswith(_BUILT_IN):
            value = each.value if isinstance(each.value, str) else json.dumps(each.value)
            words += ["--set", f"{key}={value}"]
    return shlex.join(words)


def _calibration(record: RunRecord) -> str:
    given = record.settings.get("workload.calibration")
    files = f"Calibration files: {given.value}." if given and given.value else "No calibration files were given."
    return f"Precision {record.precision}, backend {record.backend}. {files}\n"


_NS_PER_US = 1000
_SOURCES = "`code/mlbench/mlbench/cluster` and `code/mlbench/mlbench/loadgen/network.py`"
"""Where a tree has the query dispatch library."""


def options_of_nodes(record: RunRecord) -> list[str]:
    """Return how a command names the nodes of a run; none for a run without a network."""
    if not (network := record.network):
        return []
    named = [word for each in network.nodes for word in ("--network", each.address)]
    return [*named, "--connections", str(network.connections), *_certificate(record)]


def serve_commands(record: RunRecord) -> str:
    """Return the command that starts each node, a line each, with what was set there."""
    lines = []
    for each in record.network.nodes if record.network else ():
        node = each.node
        words = ["mlbench", "serve", node.workload, "--backend", node.backend, "--profile", node.profile]
        words += ["--weights", node.weights, "--listen", each.address, "--name", node.name, *_certificate(record)]
        for key, value in sorted(node.settings.items()):
            words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        lines.append(f"{shlex.join(words)}\n")
    return "".join(lines)


def network_lines(record: RunRecord) -> Iterator[str]:
    """Yield the lines about the machines of a run over a network: LoadGen's and the nodes."""
    if not (network := record.network):
        return
    protocol = "TCP with TLS" if network.is_encrypted else "TCP"
    yield from ("## Network", "")
    yield f"Samples travel over {protocol}, {network.connections} connections to each node. The sources of the query"
    yield from (f"dispatch library are in {_SOURCES}.", "")
    yield f"- LoadGen: {_machine(record.environment)}"
    for each in network.nodes:
        round_trip_us = each.round_trip_ns / _NS_PER_US
        yield (
            f"- node `{each.node.name}` at {each.address}: {_machine(each.node.environment)}; "
            f"round trip {round_trip_us:.0f} us, {each.samples} samples"
        )
    yield ""


def _certificate(record: RunRecord) -> list[str]:
    return ["--certificate", "FILE"] if record.network and record.network.is_encrypted else []


def _machine(environment: Environment) -> str:
    counted = Counter(each.name for each in environment.accelerators)
    accelerators = ", ".join(f"{count}x {name}" for name, count in sorted(counted.items())) or "no accelerator"
    return f"{environment.cpu.model}, {accelerators}, {environment.os}, {environment.kernel}"


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
    """Return ``mlperf.conf``: what the rules set, which mlbench sets without a file, in LoadGen's own form.

    Source: LoadGen's test_settings_internal.cc, for the keys.
    """
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
