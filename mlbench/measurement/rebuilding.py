"""Rebuilds the values of a record from LoadGen's logs and the name of the run folder."""

from __future__ import annotations

import dataclasses
import filecmp
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.load_pattern import MOMENT
from mlbench.contracts.rules import CHECKED
from mlbench.contracts.scenario import Scenario
from mlbench.contracts.workload import Memory, Profile, Weights
from mlbench.discovery import Plugins
from mlbench.errors import DataError, one_line
from mlbench.loadgen.logs import DETAIL, DetailLog, read_detail
from mlbench.loadgen.settings import Mode
from mlbench.measurement.audited import audited_keys, limits_of_job
from mlbench.measurement.derived_values import derive_energy, derive_roofline, derive_transfers, derive_work
from mlbench.measurement.job import Job, model_fingerprints
from mlbench.measurement.judging import Judgement, judge_run
from mlbench.measurement.overhead import overhead_ns
from mlbench.measurement.token_answers import LOG as ACCURACY_LOG
from mlbench.records.job_spec import JobSpec
from mlbench.records.log_digests import log_digests
from mlbench.records.run_outcome import NO_ACCURACY_TEST
from mlbench.records.run_record import AccuracyRecord, RuleRecord, RunRecord, SeedsRecord, VerdictRecord, is_of_format_4
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.rules.official import recognise_round
from mlbench.rules.tiers import RunLimits, Tier
from mlbench.system.documents import is_file, open_to_copy

UNLOGGED_RULES = (
    *("logs_agree", "pass_order", "answers_follow_content", "timed_answers", "first_token_computed"),
    *("no_caching", "speed_holds"),
)
"""Rules about the engine's behaviour during or right after the test; not in any log."""

_OVERHEAD = "overhead"
_SHARING = ("workload", "backend", "profile", "precision", "tier")
"""Facts in which runs that share an accuracy test are equal, as far as an id has them."""
_SOUND = "replies_sound"
_NO_SCORE = "a reply cannot be scored"
_LOGGED_LOAD = {
    "min_duration_ms": "requested_min_duration_ms",
    "min_query_count": "requested_min_query_count",
    "performance_sample_count": "requested_performance_sample_count_override",
    "reply_checks": "requested_accuracy_log_sampling_target",
}
"""Where LoadGen logs what `LoadSettings` asked for, in every scenario."""

_Scalar = bool | int | float | str | None

_SECOND = "%Y%m%dT%H%M%SZ"
"""How the id of a run has the second in which it began."""

_CHOSEN = ("target_qps", "expected_latency_ns")
"""Settings of which 0 means that the run chooses; others that LoadGen does not log keep their value."""


def rebuild(record: RunRecord, folder: Path, plugins: Plugins) -> RunRecord:
    """Return a completed run's record, rebuilt from its folder; fields that it does not hold are not set.

    A value from a log may be of any kind. What follows from other fields of the record, such as joules per sample, is
    worked out from these.

    Args:
        record: as stored.
        folder: the run folder.
        plugins: must hold the workload, whose metric scores the accuracy log once more.

    Raises:
        DataError: a log is missing, cut short, corrupt or of another scenario, or the workload's data is.
    """
    assert record.verdict
    names = names_of(folder.name, plugins) or names_of(record.run_id, plugins)
    second = names.pop("created", "")
    detail = read_detail(folder / Mode.PERFORMANCE / DETAIL)
    of = recognise_round(detail.values) or record.round
    job = _job(record, names, folder, plugins, of)
    if (found := detail.values.get("effective_scenario")) != job.scenario.loadgen:
        raise DataError(f"the log of {folder.name} is of {found}, and the run of {job.scenario.name}.")
    dataset = job.workload.dataset(job.variant)
    issued = _count_in_log(detail, "result_query_count") * _count_in_log(detail, "generated_samples_per_query")
    created, duration_ns = _times(record, second, folder)
    model = job.model()
    limits = limits_of_job(job, dataset, model)
    judgement = _judge_again(record, job, dataset, detail, limits)
    weights, fingerprints = _fingerprints(record, job, dataset)
    work = derive_work(record, job, detail, issued)
    known: dict[str, Any] = {**names, **({"logs": log_digests(folder)} if record.logs else {})}
    return RunRecord.model_construct(
        **known,
        run_id=folder.name,
        round=of,
        scenario_facts=ScenarioRecord.of(job.scenario),
        created=created,
        duration_ns=duration_ns,
        imported=None,
        status="completed",
        failure=None,
        result=judgement.result,
        accuracy=_with_origin(judgement.accuracy, record, folder, plugins),
        verdict=_with_unlogged(judgement.verdict, record),
        loadgen_version=judgement.loadgen_version,
        limits=limits,
        overhead_ns_per_sample=_overhead_ns(folder, job.scenario),
        seeds=SeedsRecord.model_construct(
            **{name: detail.values.get(f"effective_{name}_rng_seed") for name in SeedsRecord.model_fields}
        ),
        samples={"dataset": _count_in_log(detail, "qsl_reported_total_count"), "issued": issued},
        load=_load(record, job, detail),
        weights=weights,
        changes=model.changes,
        fingerprints=fingerprints,
        energy=derive_energy(record, job, detail, issued),
        transfers=derive_transfers(record, issued),
        work=work,
        roofline=derive_roofline(record, job, work),
    )


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


def _job(record: RunRecord, names: Mapping[str, str], folder: Path, plugins: Plugins, of: str) -> Job:
    """Return the job that the run was, in this round. An accuracy test was asked for where it left its log."""
    assert record.verdict
    no_accuracy = record.verdict.not_applied.get("accuracy", "")
    has_log = (folder / Mode.ACCURACY / DETAIL).is_file()
    wants_accuracy = has_log or (record.weights == "random" and no_accuracy != NO_ACCURACY_TEST)
    spec = JobSpec(
        workload=names.get("workload", record.workload),
        backend=names.get("backend", record.backend),
        scenario=names.get("scenario", record.scenario),
        profile=names.get("profile", record.profile),
        tier=names.get("tier", record.tier),
        precision=names.get("precision", record.precision),
        weights=record.weights,
        transform=record.transform,
        settings={key: setting.value for key, setting in record.settings.items()},
        folder=str(folder),
        wants_accuracy=wants_accuracy,
        uncounted="no run is made",
        variant=record.entry.variant if record.entry else "",
        division=record.entry.division if record.entry else "closed",
        round=of,
        audit=record.audit.test if record.audit else "",
    )
    try:
        return Job.of_spec(spec, plugins, memory=Memory.HOST)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise DataError(f"run record is corrupt: {folder.name}: a setting is of the wrong kind: {reason}.") from None


def _times(record: RunRecord, second: str, folder: Path) -> tuple[datetime | str, int | str | None]:
    """Return when the run began and how many nanoseconds it took, within the bounds of the id and LoadGen's clock.

    Args:
        record: whose values are returned where they keep these bounds.
        second: in which the run began, by its id; empty if that does not say it.
        folder: the run folder.
    """
    created, duration_ns = record.created, record.duration_ns
    found: tuple[datetime | str, int | str | None] = created, duration_ns
    begun, ended = _span_in_logs(folder, has_own_accuracy=not (record.accuracy and record.accuracy.tested_in))
    if second and created.strftime(_SECOND) != second:
        created = datetime.strptime(second, _SECOND).replace(tzinfo=UTC)
        found = created.isoformat(), duration_ns
    if created > begun:
        found = f"before {begun.isoformat()}, when LoadGen began", duration_ns
    lasted_ns = round((ended - created).total_seconds() * 1e9)
    if duration_ns is None or duration_ns < lasted_ns:
        return found[0], f"at least {lasted_ns}, when LoadGen ended its last test"
    return found


def _with_origin(
    scored: AccuracyRecord | None, record: RunRecord, folder: Path, plugins: Plugins
) -> AccuracyRecord | None:
    """Return scores with the id of the run whose test they are of, or in words why it is not the recorded one."""
    if scored and record.accuracy and not record.accuracy.computed_with and not is_of_format_4(record):
        scored = scored.model_copy(update={"computed_with": {}})
    said = record.accuracy.tested_in if record.accuracy else ""
    if not scored or not said:
        return scored
    theirs, log = names_of(said, plugins), Path(Mode.ACCURACY) / ACCURACY_LOG
    if any(theirs.get(name) != getattr(record, name) for name in _SHARING):
        said = "no run of the same kind"
    elif (other := folder.with_name(said) / log).is_file() and not filecmp.cmp(other, folder / log, shallow=False):
        said = f"not {said}, whose log of replies is another"
    return scored.model_copy(update={"tested_in": said})


def _span_in_logs(folder: Path, *, has_own_accuracy: bool) -> tuple[datetime, datetime]:
    """Return when LoadGen began its first test of a run and ended its last."""
    files = [log for log in sorted(folder.glob(f"*/{DETAIL}")) if has_own_accuracy or log.parent.name != Mode.ACCURACY]
    logs = [read_detail(log) for log in files]
    try:
        begun, ended = (
            [datetime.strptime(_value_in_log(log, key), MOMENT).replace(tzinfo=UTC) for log in logs]
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


def _judge_again(record: RunRecord, job: Job, dataset: Dataset, detail: DetailLog, limits: RunLimits) -> Judgement:
    """Return scores and verdict by the code that judged the run; whether any reply was invalid is the record's.

    LoadGen does not log which replies were invalid.
    """
    assert record.verdict
    metric = job.workload.metric(job.variant, dataset) if job.spec.wants_accuracy else None
    if metric and record.accuracy:
        metric = metric.as_computed(record.accuracy.computed_with, record.accuracy.scores)
    is_unscored = record.verdict.not_applied.get("accuracy") == _NO_SCORE  # a fault that is found once more
    sound = next((rule for rule in record.verdict.rules if rule.rule == _SOUND), None)
    has_faults = sound is not None and not is_unscored and int(sound.measured or 0) > 0
    with _copy_to_write_in(job.folder) as place:
        return judge_run(
            dataclasses.replace(job, folder=place),
            limits,
            detail,
            {Mode.PERFORMANCE: ["in the record"] if has_faults else []},
            metric,
            model=job.model(),
            spots=(None, ""),
            statistics=record.engine,
        )


def _with_unlogged(verdict: VerdictRecord, record: RunRecord) -> VerdictRecord:
    """Return a verdict that follows from the logs with what a record's verdict says about the rest."""
    said = record.verdict
    assert said
    fields: dict[str, Any] = {
        "rules": [_without_unlogged(rule) if rule.rule == _SOUND else rule for rule in verdict.rules]
    }
    if is_of_format_4(record) and not said.not_applied.keys().isdisjoint(CHECKED):
        fields["is_conformant"] = False
    if not all(rule.passed for rule in said.rules if rule.rule in UNLOGGED_RULES):
        fields |= {"is_valid": False, "is_conformant": False}
    return verdict.model_copy(update=fields)


def _without_unlogged(rule: RuleRecord) -> RuleRecord:
    """Leave out what only the record knows."""
    return RuleRecord.model_construct(**rule.model_dump(exclude={"measured", "fix"}))


@contextmanager
def _copy_to_write_in(folder: Path) -> Iterator[Path]:
    """Make a folder with links to the logs, for files written by scoring."""
    with tempfile.TemporaryDirectory() as place:
        for file in folder.glob("*/*"):
            link = Path(place) / file.relative_to(folder)
            link.parent.mkdir(exist_ok=True)
            if is_file(file) and file.name.startswith("mlperf_log_"):
                open_to_copy(file).close()
                link.symlink_to(file.resolve())
        yield Path(place)


def _overhead_ns(folder: Path, scenario: Scenario) -> int | None:
    log = folder / _OVERHEAD / DETAIL
    if not log.is_file():
        return None
    try:
        return overhead_ns(read_detail(log), scenario)
    except KeyError as error:
        raise _missing_key(error.args[0]) from None


def _load(record: RunRecord, job: Job, detail: DetailLog) -> dict[str, _Scalar]:
    """Return how LoadGen was driven, as far as it logs that; it prints six digits of a rate.

    What a compliance test's configuration replaced is as the record says: LoadGen logs the replacement.
    """
    own = {field: f"requested_{setting}" for field, setting in job.scenario.pattern.settings.items()}
    keys, replaced = _LOGGED_LOAD | own, audited_keys(job)
    logged = {name: detail.values[key] for name, key in keys.items() if key in detail.values.keys() - replaced}
    found = {name: record.load[name] for name, key in keys.items() if key in replaced and name in record.load} | {
        name: _unless_rounded(record.load[name], value) if name in record.load else value
        for name, value in logged.items()
    }
    for key, setting in record.settings.items():
        room, _, name = key.partition(".")
        is_given = bool(setting.value) or name not in _CHOSEN
        if room == "load" and name not in found and is_given and not isinstance(setting.value, list | dict):
            found[name] = setting.value
    return found


def _unless_rounded(said: Any, logged: Any) -> _Scalar:
    """Return a number of the log, or the one that the record says if LoadGen would print it like that."""
    found: _Scalar = said if f"{said:.6g}" == f"{logged:.6g}" else logged
    return found


def _fingerprints(record: RunRecord, job: Job, dataset: Dataset) -> tuple[str, dict[str, str]]:
    """Return which weights have the recorded fingerprint, and those of data and model as they are installed here."""
    said, found = record.fingerprints.get("weights"), {}
    kinds = (job.variant.weights, *(kind for kind in Weights if kind is not job.variant.weights))
    for kind in kinds:
        found[kind] = model_fingerprints(
            dataclasses.replace(job, variant=dataclasses.replace(job.variant, weights=kind))
        )
        if found[kind]["weights"] == said:
            break
    weights = kind if found[kind]["weights"] == said else kinds[0]
    return str(weights), {"data": dataset.fingerprint, **found[weights]}
