"""A run in sentences: its result and validity, the meaning of each part, and the next step."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from mlbench.contracts.hookspecs import MODEL_FILE
from mlbench.contracts.load_pattern import Arrivals
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.records.job_spec import transform_options
from mlbench.records.run_record import RuleRecord, RunRecord
from mlbench.reports.console import UNSUPPORTED, accuracy, overhead, p99, percentile_beside, result
from mlbench.reports.units import plural

RESULTS_OF = {
    Arrivals.ALL_AT_ONCE: "samples answered per second when all are sent at once: the throughput",
    Arrivals.AT_A_RATE: "queries answered per second within the latency limit, at random arrival times",
    Arrivals.ONE_BY_ONE: "the latency of a query, sent when the previous one is answered: the wait of a single user",
}
"""Meaning of a scenario's result, by arrival pattern."""

TIERS = {
    "smoke": "seconds long: it shows that everything works, but is too short to compare small differences",
    "dev": "a minute long: for work on a backend; shorter than the official rules require",
    "valid": "as long as the official rules require",
}


def sentence(record: RunRecord) -> str:
    """Return a sentence with a run's result and its validity."""
    what = f"{record.model} on {record.backend} ({record.precision_and_transform}, {record.scenario})"
    if record.failure:
        return f"{what} has no result: {record.failure.kind} during {record.failure.stage}."
    found = f"{what}: {result(record)}{percentile_beside(record)}"
    assert record.verdict
    if not record.verdict.is_valid:
        return f"{found}, but the run is INVALID: {_names(record)} failed."
    if record.verdict.is_accurate is False:
        return f"{found}, but the answers are not accurate enough: {accuracy(record)}."
    doubt = f", but not checked ({_why_unchecked(record)})" if record.unchecked else ""
    return f"{found}; valid for tier {record.tier}{doubt}, {_scored(record)}."


def _scored(record: RunRecord) -> str:
    if not record.accuracy or (record.verdict and record.verdict.is_accurate is None and not record.is_open):
        return "accuracy was not measured"
    return f"no accuracy required: {accuracy(record)}" if record.is_open else f"accurate: {accuracy(record)}"


def next_step(record: RunRecord) -> str:
    """Return the next step after a run: the fix of a failure, or a measurement that can be compared."""
    if record.failure:
        what = record.failure.message.rstrip(".")
        if record.failure.kind == UNSUPPORTED:
            return f"{what}. The backend does not support this workload; others may. The end of its log is below."
        return f"{what}. The end of its log is below; fix that, then run it again."
    if not record.is_good:
        fixes = dict.fromkeys(rule.fix for rule in _failed(record) if rule.fix)
        return " ".join(fixes) or "The rules below have the measured values and the limits."
    if record.imported or (record.tier, record.profile) == ("valid", "full"):
        return f"See its rank among published results: mlbench published --place {record.run_id[-4:]}"
    beside = ""
    if (others := record.other_work) and others.is_noticeable:
        beside = f"Other work used {others.share:.0%} of the processors during the test; use an idle machine. "
    if record.beside and record.beside.note:
        beside += f"It was measured beside {record.beside.note}: compare it with runs that are, as these will be. "
    again = f"{_command(record)} --repeat 5 --tag before"
    return f"{beside}To compare it later, measure it five times under a name: {again}"


def explain(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Yield each part of a completed run's line, with its meaning."""
    assert record.result and record.verdict
    yield result(record), _meaning_of_result(record)
    if p99(record) != "-":
        yield f"p99 {p99(record)}", "99 % were answered within this time"
    if record.unchecked:
        yield "not checked", f"perhaps the speed of an engine that does not compute: {_why_unchecked(record)}"
    elif record.verdict.is_valid:
        held = sum(1 for rule in record.verdict.rules if rule.passed)
        yield "valid", f"{plural(held, 'rule')} passed: no reply missing, repeated, cached or invented"
    else:
        yield "INVALID", f"failed: {_names(record)}"
    if record.accuracy:
        yield accuracy(record), "the score of the official metric, and the least that the rules accept"
    if overhead(record) != "-":
        yield (
            f"overhead {overhead(record)}",
            "of each sample's time is mlbench's and LoadGen's own, measured on this machine",
        )
    yield f"tier {record.tier}", TIERS.get(record.tier, "")


def _meaning_of_result(record: RunRecord) -> str:
    if record.scenario_facts.is_beyond_rules:
        unit = record.result.unit if record.result else "samples/s"
        return f"{unit}, batch 1, as framework benchmarks report it; not an MLPerf scenario"
    arrivals = record.scenario_facts.arrivals
    return RESULTS_OF[arrivals] if arrivals else f"the result of scenario {record.scenario}"


def _failed(record: RunRecord) -> list[RuleRecord]:
    return [rule for rule in record.verdict.rules if rule.required and not rule.passed] if record.verdict else []


def _why_unchecked(record: RunRecord) -> str:
    return ", ".join(f"{rule}: {record.verdict.not_applied[rule]}" for rule in record.unchecked if record.verdict)


def _names(record: RunRecord) -> str:
    return ", ".join(rule.rule for rule in _failed(record))


def _command(record: RunRecord) -> str:
    chosen = ["--backend", record.backend, "--scenario", record.scenario, "--precision", record.precision]
    chosen += transform_options(record.transform)
    given = {key: each.value for key, each in record.settings.items() if each.layer == "command line"}
    model = given.pop(MODEL_FILE, None)  # a user's own has one profile
    usual: dict[str, tuple[str, str]] = {
        "--profile": (record.profile, record.profile if model else "mini"),
        "--tier": (record.tier, "smoke"),
        "--round": (record.round, DEFAULT_ROUND),
    }
    chosen += [word for option, (value, default) in usual.items() if value != default for word in (option, value)]
    chosen += record.entry.options if record.entry else []
    chosen += ["--parallel", str(record.beside.lanes)] if record.beside else []
    chosen += [word for key, value in given.items() for word in ("--set", f"{key}={_as_given(value)}")]
    subject = ["--model", str(model), "--name", record.workload] if model else [record.workload]
    return shlex.join(["mlbench", "run", *subject, *chosen])


def _as_given(value: Any) -> str:
    """Return a setting's value in the form of the command line."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return ",".join(f"{name}={each}" for name, each in value.items()) if isinstance(value, dict) else str(value)
