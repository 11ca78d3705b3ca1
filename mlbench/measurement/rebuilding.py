"""Rebuilds the values of a record from LoadGen's logs and the name of the run folder."""

from __future__ import annotations

import dataclasses
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.scenario import Scenario
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.engine_statistics import statistics_from_json
from mlbench.errors import DataError, one_line
from mlbench.loadgen.drive import Traffic
from mlbench.loadgen.ledger import Ledger
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail, samples_per_s, tokens_of
from mlbench.loadgen.settings import Mode
from mlbench.measurement.job import Job
from mlbench.measurement.judging import judge_run
from mlbench.measurement.overhead import overhead_ns
from mlbench.records.job_spec import JobSpec
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.rules.own import rules_of
from mlbench.rules.tiers import Tier, limits_of, with_own_limits

UNLOGGED_RULES = ("pass_order", "answers_follow_content", "first_token_computed", "no_caching", "speed_holds")
"""Rules about the engine's behaviour during or right after the test; not in any log."""

_OVERHEAD = "overhead"
_SOUND = "replies_sound"
_NO_SCORE = "a reply cannot be scored"
_NOT_ASKED = "no accuracy test was asked for"
_LOGGED_LOAD = {
    "min_duration_ms": "requested_min_duration_ms",
    "min_query_count": "requested_min_query_count",
    "performance_sample_count": "requested_performance_sample_count_override",
    "reply_checks": "requested_accuracy_log_sampling_target",
}
"""Where LoadGen logs what `LoadSettings` asked for, in every scenario."""

_CHOSEN = ("target_qps", "expected_latency_ns")
"""Settings of which 0 means that the run chooses; others that LoadGen does not log keep their value."""


def rebuild(record: Mapping[str, Any], folder: Path, plugins: Plugins) -> dict[str, Any]:
    """Return the record of a completed run, rebuilt from its folder; what the folder does not hold is missing.

    What follows from other fields of the record, such as joules per sample, is worked out from these.

    Args:
        record: as stored, JSON values.
        folder: the run folder.
        plugins: must hold the workload, whose metric scores the accuracy log once more.

    Raises:
        DataError: a log is missing, cut short, corrupt or of another scenario, or the workload's data is.
    """
    names = names_of(folder.name, plugins) or names_of(record["run_id"], plugins)
    job = _job({**record, **names}, folder, plugins)
    detail = read_detail(folder / Mode.PERFORMANCE / DETAIL)
    if (found := detail.values.get("effective_scenario")) != job.scenario.loadgen:
        raise DataError(f"the log of {folder.name} is of {found}, and the run of {job.scenario.name}.")
    dataset = job.workload.dataset(job.variant)
    issued = _count_in_log(detail, "result_query_count") * _count_in_log(detail, "generated_samples_per_query")
    fields = _json(
        {
            "run_id": folder.name,
            **names,
            "scenario_facts": ScenarioRecord.of(job.scenario).model_dump(mode="json"),
            **_times(record, names, folder),
            "imported": None,
            "status": "completed",
            "failure": None,
            **_judge_again(record, job, dataset, detail),
            "overhead_ns_per_sample": _overhead_ns(folder, job.scenario),
            "seeds": {
                name: detail.values.get(f"effective_{name}_rng_seed") for name in ("qsl", "sample_index", "schedule")
            },
            "samples": {"dataset": _count_in_log(detail, "qsl_reported_total_count"), "issued": issued},
            "load": _load(record, job.scenario, detail),
            **_fingerprints(record, job, dataset),
        }
    )
    return fields | _json(_derive_values(record, job, detail, issued))


def names_of(run_id: str, plugins: Plugins) -> dict[str, str]:
    """Return the fields of a record that a run's id contains; empty if it is not an id made by mlbench.

    The inverse of `new_run_id`: the names of workload and scenario are looked for among the plugins'.
    """
    workload, scenario, profile, tier = (
        "|".join(sorted((re.escape(re.sub(r"[^\w.+-]", "_", name)) for name in names), key=len, reverse=True))
        for names in (plugins.workloads, plugins.scenarios, Profile, Tier)
    )
    found = re.fullmatch(
        rf"(?P<created>\d{{8}}T\d{{6}}Z)-(?P<workload>{workload})-(?P<backend>.+)-(?P<scenario>{scenario})"
        rf"-(?P<profile>{profile})-(?P<precision>.+)-(?P<tier>{tier})-[0-9a-f]{{4}}",
        run_id,
    )
    return found.groupdict() if found else {}


def _job(record: Mapping[str, Any], folder: Path, plugins: Plugins) -> Job:
    """Return the job that the run was. An accuracy test was asked for where it left its log."""
    no_accuracy = record["verdict"]["not_applied"].get("accuracy", "")
    has_log = (folder / Mode.ACCURACY / DETAIL).is_file()
    wants_accuracy = has_log or (record["weights"] == Weights.RANDOM and no_accuracy != _NOT_ASKED)
    names = ("workload", "backend", "scenario", "profile", "tier", "weights", "precision")
    spec = JobSpec(
        **{name: record[name] for name in names},
        settings={key: setting["value"] for key, setting in record["settings"].items()},
        folder=str(folder),
        wants_accuracy=wants_accuracy,
        uncounted="no run is made",
    )
    try:
        return Job.of_spec(spec, plugins)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"run record is corrupt: {folder.name}: a setting is of the wrong kind: {reason}.") from None


def _times(record: Mapping[str, Any], names: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """Return when the run began and how long it took, within the bounds of the id and LoadGen's clock."""
    created, duration_ns = datetime.fromisoformat(record["created"]), record["duration_ns"]
    begun, ended = _span_in_logs(folder)
    found: dict[str, Any] = {"created": record["created"], "duration_ns": duration_ns}
    if "created" in names and created.strftime("%Y%m%dT%H%M%SZ") != names["created"]:
        created = datetime.strptime(names["created"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        found["created"] = created.isoformat()
    if created > begun:
        found["created"] = f"before {begun.isoformat()}, when LoadGen began"
    lasted_ns = round((ended - created).total_seconds() * 1e9)
    if duration_ns is None or duration_ns < lasted_ns:
        found["duration_ns"] = f"at least {lasted_ns}, when LoadGen ended its last test"
    return found


def _span_in_logs(folder: Path) -> tuple[datetime, datetime]:
    """Return when LoadGen began its first test of a run and ended its last."""
    form = "%m-%d-%Y %H:%M:%S.%f"
    logs = [read_detail(log) for log in sorted(folder.glob(f"*/{DETAIL}"))]
    try:
        begun, ended = (
            [datetime.strptime(_value_in_log(log, key), form).replace(tzinfo=UTC) for log in logs]
            for key in ("power_begin", "power_end")
        )
    except (TypeError, ValueError) as error:
        raise DataError(f"corrupt LoadGen log in {folder}: {error}.", hint="Run it again.") from None
    return min(begun), max(ended)


def _value_in_log(detail: DetailLog, key: str) -> Any:
    try:
        return detail.values[key]
    except KeyError:
        raise _missing_key(key) from None


def _count_in_log(detail: DetailLog, key: str) -> int:
    """Return a number that is multiplied with others: a text or a list would be repeated so many times."""
    count = _value_in_log(detail, key)
    if type(count) is not int:
        raise DataError(f"corrupt LoadGen log: {key} is {one_line(count, longest=40)!r}.", hint="Run it again.")
    return count


def _missing_key(key: str) -> DataError:
    return DataError(f"truncated LoadGen log: the detail log has no {key}.", hint="Run it again.")


def _judge_again(record: Mapping[str, Any], job: Job, dataset: Dataset, detail: DetailLog) -> dict[str, Any]:
    """Return scores and verdict by the code that judged the run; whether any reply was invalid is the record's.

    LoadGen does not log which replies were invalid.
    """
    by_rules = limits_of(job.workload, dataset, job.scenario, job.tier, job.variant.profile)
    limits = with_own_limits(by_rules, job.load)
    metric = job.workload.metric(job.variant, dataset) if job.spec.wants_accuracy else None
    is_unscored = record["verdict"]["not_applied"].get("accuracy") == _NO_SCORE  # a fault that is found once more
    sound = next((rule for rule in record["verdict"]["rules"] if rule["rule"] == _SOUND), None)
    has_faults = sound is not None and not is_unscored and int(sound["measured"] or 0) > 0
    with _copy_to_write_in(job.folder) as place:
        judgement = judge_run(
            dataclasses.replace(job, folder=place),
            limits,
            detail,
            {Mode.PERFORMANCE: _RecordedTraffic(has_faults)},
            metric,
            model=job.workload.model(job.variant),
            spots=(None, ""),
            statistics=statistics_from_json(record["engine"]),
        )
    values = _json(dataclasses.asdict(judgement))
    verdict = values["verdict"]
    for rule in verdict["rules"]:
        if rule["rule"] == _SOUND:
            del rule["measured"], rule["fix"]
    if not _passes_unlogged(record["verdict"]["rules"]):
        verdict = {**verdict, "is_valid": False, "is_conformant": False}
    return {**values, "verdict": verdict, "limits": dataclasses.asdict(limits)}


def _passes_unlogged(rules: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the rules that cannot be checked from logs passed, according to the record."""
    return all(rule["passed"] for rule in rules if rule["rule"] in UNLOGGED_RULES)


class _RecordedTraffic(Traffic):
    """Has a fault where a record counts some."""

    def __init__(self, has_faults: bool) -> None:
        super().__init__(Ledger())
        self._has_faults = has_faults

    @property
    def faults(self) -> list[str]:
        """A line for all."""
        return ["in the record"] if self._has_faults else []


@contextmanager
def _copy_to_write_in(folder: Path) -> Iterator[Path]:
    """Make a folder with links to the logs, for files written by scoring."""
    with tempfile.TemporaryDirectory() as place:
        for file in folder.glob("*/*"):
            link = Path(place) / file.relative_to(folder)
            link.parent.mkdir(exist_ok=True)
            if file.is_file() and file.name.startswith("mlperf_log_"):
                link.symlink_to(file.resolve())
        yield Path(place)


def _overhead_ns(folder: Path, scenario: Scenario) -> int | None:
    log = folder / _OVERHEAD / DETAIL
    if not log.is_file():
        return None
    try:
        return overhead_ns(read_detail(log).values, scenario)
    except KeyError as error:
        raise _missing_key(error.args[0]) from None


def _load(record: Mapping[str, Any], scenario: Scenario, detail: DetailLog) -> dict[str, Any]:
    """Return how LoadGen was driven, as far as it logs that; it prints six digits of a rate."""
    own = {field: f"requested_{setting}" for field, setting in scenario.pattern.settings.items()}
    keys, said = _LOGGED_LOAD | own, record["load"]
    logged = {name: detail.values[key] for name, key in keys.items() if key in detail.values}
    found = {
        name: said[name] if name in said and f"{said[name]:.6g}" == f"{value:.6g}" else value
        for name, value in logged.items()
    }
    for key, setting in record["settings"].items():
        room, _, name = key.partition(".")
        if room == "load" and name not in found and (setting["value"] or name not in _CHOSEN):
            found[name] = setting["value"]
    return found


def _fingerprints(record: Mapping[str, Any], job: Job, dataset: Dataset) -> dict[str, Any]:
    """Return the fingerprints of data and model as they are installed here, and which weights have the recorded one."""
    said, found = record["fingerprints"].get("weights"), {}
    kinds = (job.variant.weights, *(kind for kind in Weights if kind is not job.variant.weights))
    for kind in kinds:
        model = job.workload.model(dataclasses.replace(job.variant, weights=kind))
        graphs = {f"graph {name}": graph.fingerprint for name, graph in model.graphs.items()}
        found[kind] = {"weights": model.weights_fingerprint, **graphs}
        if model.weights_fingerprint == said:
            break
    weights = kind if found[kind]["weights"] == said else kinds[0]
    return {"weights": str(weights), "fingerprints": {"data": dataset.fingerprint, **found[weights]}}


def _derive_values(record: Mapping[str, Any], job: Job, detail: DetailLog, issued: int) -> dict[str, Any]:
    """Return values derived from the logs and from measurements that only the record has."""
    energy, work, roofline = (record[name] for name in ("energy", "work", "roofline"))
    rate_per_s = samples_per_s(detail, job.scenario)
    if energy:
        tokens = tokens_of(detail, job.scenario, rules_of(job.workload).token_key(job.scenario.loadgen))
        energy = {
            "joules_per_sample": energy["joules"] / issued if issued else None,
            "joules_per_token": energy["joules"] / tokens if tokens else None,
        }
    per_sample = {"operations": 0.0, "bytes": 0.0}
    if work:
        per_sample = {name: sum(graph[name] for graph in work["graphs"]) / max(issued, 1) for name in per_sample}
        work = {**{f"{name}_per_sample": each for name, each in per_sample.items()}, "samples_per_s": rate_per_s}
    if roofline:
        rates = {name: (rate_per_s or 0) * each for name, each in per_sample.items()}
        shares = {
            bound: rates[name] / roofline[f"{name}_ceiling_per_s"]
            for bound, name in (("compute", "operations"), ("memory", "bytes"))
        }
        bound = max(shares, key=lambda name: shares[name])
        roofline = {
            "device": record["runtime"].get("device"),
            "precision": str(job.plan.precision),
            **{f"{name}_per_s": rate for name, rate in rates.items()},
            "bound": bound,
            "share": shares[bound],
        }
    return {"energy": energy, "work": work, "roofline": roofline}


def _json(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields after a round trip through JSON."""
    from pydantic_core import to_json

    loaded: dict[str, Any] = json.loads(to_json(fields, inf_nan_mode="null"))
    return loaded
