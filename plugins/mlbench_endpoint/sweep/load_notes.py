"""Sentences about the load of a run, from its record: whether caches help, how a schedule was kept, and oddities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mlbench_endpoint.api import Api
from mlbench_endpoint.client.remarks import remarks_on
from mlbench_endpoint.loads.generated_prompts import parse_shared_prefix
from mlbench_endpoint.loads.load import Load


def notes_of(record: Mapping[str, Any]) -> list[str]:
    """Return sentences about the load of a run."""
    settings = {key: facts["value"] for key, facts in record["settings"].items()}
    label = Load.of_record(record["scenario"], record["settings"]).label
    engine = record["engine"]
    return [
        *_input_speed(record, label),
        _caches(settings),
        *_sessions(engine, label),
        *_lateness(engine, label),
        *_differences(engine, label),
        *(f"{label}: {remark}." for remark in remarks_on(engine)),
    ]


def _input_speed(record: Mapping[str, Any], label: str) -> Iterator[str]:
    """Yield the speed of reading, where answers are no tokens."""
    if record["workload"] == Api.EMBEDDINGS.workload and record["result"]:
        rows = {(row["of"], row["unit"]): row["mean"] for row in record["engine"].get("from_sending", ())}
        speed = record["result"]["value"] * rows.get(("prompt", "tokens"), 0.0)
        yield f"{label}: {speed:,.0f} input tokens/s; answers are numbers, so that there is no TTFT and no TPOT."


def _caches(settings: Mapping[str, Any]) -> str:
    """Return whether a server's prefix cache can help."""
    if settings.get("workload.trace"):
        return "Caches: prompts of the trace share the text of equal hash_ids, which is new in each run."
    if settings.get("workload.file"):
        return "Caches: prompts of the file are sent as they are, so those that repeat may be cached."
    share, tokens = parse_shared_prefix(settings.get("workload.shared_prefix", ""))
    if share:
        return f"Caches: {share:.0%} of the prompts begin with the same {tokens:,} tokens; all else of a prompt is new."
    return "Caches: every prompt begins with new words, so that no prefix cache helps."


def _sessions(engine: Mapping[str, Any], label: str) -> Iterator[str]:
    if sessions := engine.get("sessions"):
        turns = engine["answered"] / sessions
        yield f"{label}: {sessions} sessions of {turns:.3g} turns; a request is a turn, and its history may be cached."


def _lateness(engine: Mapping[str, Any], label: str) -> Iterator[str]:
    if row := engine.get("lateness"):
        late = [f"{row[name] / 1e6:.3g}" for name in ("p50", "p99", "most")]
        yield f"{label}: sent {late[0]} ms late in the median, {late[1]} at the 99th percentile, {late[2]} at most."


def _differences(engine: Mapping[str, Any], label: str) -> Iterator[str]:
    if not (found := engine.get("same_answers")):
        return
    share, first = found["share"], found["first_difference"]
    told = f"{found['different']} of {found['compared']} answers differ from those alone"
    if share["low"] is not None:
        told += f": {share['value']:.2%} [{share['low']:.2%}, {share['high']:.2%}]"
    yield f"{label}: {told}."
    if first:
        yield f"{label}: they begin to differ in chunk {first['median']} (median; {first['least']} to {first['most']})."
    if found["unstable_alone"]:
        yield f"{label}: {found['unstable_alone']} of {found['prompts']} prompts are left out: they differ even alone."
