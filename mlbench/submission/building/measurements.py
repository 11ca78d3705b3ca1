"""The folder of an entry that says how it was measured."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.records.job_spec import transform_options
from mlbench.records.run_record import RunRecord
from mlbench.submission.building.configuration import mlperf_conf, user_conf
from mlbench.submission.building.entries import BuiltEntry
from mlbench.submission.building.network import network_lines, options_of_nodes, serve_commands
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
