"""One result of an official tree, as a run record.

The number is read from LoadGen's log and judged by mlbench's own rules, which are stricter than the official checker in
known places: a run that LoadGen calls INVALID, or whose early stopping test failed, is INVALID here. Accuracy is held
against the target of the closed division, also where the open one demands none. Replies are not in a tree, so the rules
about them are not applied, and no imported run is called conformant.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from mlbench import __version__
from mlbench.contracts.metric import Target
from mlbench.contracts.scenario import Scenario
from mlbench.contracts.workload import Profile, Weights
from mlbench.errors import DataError
from mlbench.loadgen.logs import DetailLog, read_detail, result_of
from mlbench.records.run_folder import new_run_id
from mlbench.records.run_record import (
    AccuracyRecord,
    ImportRecord,
    ResultRecord,
    RuleRecord,
    RunRecord,
    SeedsRecord,
    TargetRecord,
    VerdictRecord,
)
from mlbench.rules.facts import RunFacts
from mlbench.rules.tiers import Tier, official_limits
from mlbench.rules.verdict import judge
from mlbench.submission.scores import PrintedScores, read_scores
from mlbench.submission.systems import UNKNOWN, environment_of, read_description, runtime_of
from mlbench.submission.tree import ACCURACY, DETAIL, Benchmark, Entry, benchmark_of, scenario_of

_NO_REPLIES = "an official tree holds no replies"
_LOAD = ("min_duration_ms", "min_query_count", "performance_sample_count", "samples_per_query")
_MOMENTS = {"power_begin": "%m-%d-%Y %H:%M:%S.%f", "test_datetime": "%Y-%m-%dT%H:%M:%SZ"}
"""Where a log says when it was made: the first is UTC, the second local time of an unknown zone."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Unread:
    """A file or folder of a tree that could not be read, and why."""

    path: Path
    reason: str

    @classmethod
    def because(cls, path: Path, error: DataError) -> Unread:
        """Return the reason without repeating the path in it."""
        return cls(path, error.message.replace(str(path), path.name))


def read_result(entry: Entry, *, tag: str = "") -> tuple[RunRecord, list[Unread]]:
    """Return the record of a result, and the files that would have told more.

    Raises:
        DataError: it has no performance log that can be read, or is of no benchmark of v4.1.
    """
    benchmark, scenario = benchmark_of(entry), scenario_of(entry)
    detail = _performance_log(entry.performance / DETAIL, scenario)
    try:
        return _result(entry, benchmark, scenario, detail, tag)
    except (TypeError, ValueError) as error:  # in somebody else's files any key may hold anything
        raise DataError(f"a value is of the wrong kind: {' '.join(str(error).split())[:200]}.") from None


def _result(
    entry: Entry, benchmark: Benchmark, scenario: Scenario, detail: DetailLog, tag: str
) -> tuple[RunRecord, list[Unread]]:
    owner = f"{entry.submitter}/{entry.system}"
    targets = [dataclasses.replace(each, required=each.name == benchmark.variant) for each in benchmark.rules.targets]
    names = tuple(dict.fromkeys(each.score for each in targets))

    unread: list[Unread] = []
    printed = _if_readable(lambda file: read_scores(file, names), entry.accuracy / ACCURACY, unread)
    description = _if_readable(read_description, entry.system_file, unread) or {}
    implementation = _if_readable(read_description, entry.measurement_file, unread) or {}

    created, log_sha256 = _created(detail), _sha256(entry.performance / DETAIL)
    token_key = benchmark.rules.reported_key(scenario.loadgen)
    result = dataclasses.asdict(result_of(detail, scenario, token_key=token_key))
    record = RunRecord(
        run_id=new_run_id(created, entry.model, entry.submitter, entry.system, scenario.name, ending=log_sha256[:8]),
        created=created,
        duration_ns=None,
        mlbench_version=__version__,
        workload=benchmark.rules.name,
        backend=owner,
        scenario=scenario.name,
        profile="full",
        tier="valid",
        weights="trained",
        precision=_precision(implementation),
        tag=tag,
        imported=_origin(entry, benchmark, log_sha256, description),
        status="completed",
        result=ResultRecord.model_validate(result),
        accuracy=_accuracy(printed, targets),
        verdict=_verdict(detail, benchmark, scenario, printed, targets),
        loadgen_version=str(detail.values.get("loadgen_version", "")),
        seeds=_seeds(detail.values),
        samples=_samples(detail.values),
        load=_load(detail.values),
        limits=dataclasses.asdict(official_limits(benchmark.rules, scenario)),
        runtime=dict(runtime_of(description)),
        environment=environment_of(owner, description),
    )
    return record, unread


def _if_readable(read: Callable[[Path], _Read], file: Path, unread: list[Unread]) -> _Read | None:
    try:
        return read(file)
    except DataError as error:
        unread.append(Unread.because(file, error))
        return None


def _performance_log(file: Path, scenario: Scenario) -> DetailLog:
    if not file.is_file():
        raise DataError(f"there is no {file.parent.parent.name}/{file.parent.name}/{file.name}.")
    detail = read_detail(file)
    mode, found = (detail.values.get(f"effective_{name}") for name in ("test_mode", "scenario"))
    if mode == "AccuracyOnly":
        raise DataError(f"{file} is the log of an accuracy test.")
    if found != scenario.loadgen:
        raise DataError(f"{file} is a log of {found}, in a folder of {scenario.name}.")
    return detail


def _created(detail: DetailLog) -> datetime:
    for key, form in _MOMENTS.items():
        try:
            return datetime.strptime(str(detail.values.get(key)), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise DataError("the log does not say when it was made.")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _precision(implementation: Mapping[str, Any]) -> str:
    """Return what the weights are stored in: ``int8``, or a list as the submitter wrote it."""
    return str(implementation.get("weight_data_types") or UNKNOWN).strip().lower()


def _origin(entry: Entry, benchmark: Benchmark, log_sha256: str, description: Mapping[str, Any]) -> ImportRecord:
    return ImportRecord(
        path=entry.path,
        log_sha256=log_sha256,
        division=entry.division,
        submitter=entry.submitter,
        system=entry.system,
        variant=benchmark.variant,
        description=dict(description),
    )


def _accuracy(printed: PrintedScores | None, targets: Sequence[Target]) -> AccuracyRecord | None:
    if printed is None:
        return None
    held = [_held(target, printed.scores.get(target.score, math.nan)) for target in targets]
    is_met = all(each.is_met for each in held if each.required)
    return AccuracyRecord(scores=dict(printed.scores), targets=held, line=printed.line, is_met=is_met)


def _held(target: Target, score: float) -> TargetRecord:
    fields = dataclasses.asdict(target)
    return TargetRecord.model_validate({**fields, "value": score, "is_met": target.is_met_by(score)})


def _verdict(
    detail: DetailLog,
    benchmark: Benchmark,
    scenario: Scenario,
    printed: PrintedScores | None,
    targets: Sequence[Target],
) -> VerdictRecord:
    verdict = judge(
        RunFacts(
            workload=benchmark.rules.name,
            rules=benchmark.rules,
            scenario=scenario,
            tier=Tier.VALID,
            profile=Profile.FULL,
            weights=Weights.TRAINED,
            limits=official_limits(benchmark.rules, scenario),
            detail=detail.values,
            loadgen_errors=detail.errors,
            reply_faults=None,
            unchecked_reason=_NO_REPLIES,
            scores=printed.scores if printed else None,
            targets=targets,
            unscored_reason=f"the tree has no {ACCURACY} that can be read",
        )
    )
    return VerdictRecord(
        rules=[RuleRecord.model_validate(result) for result in verdict.results],
        not_applied=dict(verdict.not_applied),
        is_valid=verdict.is_valid,
        is_accurate=verdict.is_accurate,
        is_conformant=False,
    )


def _seeds(values: Mapping[str, Any]) -> SeedsRecord | None:
    found = {name: values.get(f"effective_{name}_rng_seed") for name in SeedsRecord.model_fields}
    return SeedsRecord.model_validate(found) if all(isinstance(each, int) for each in found.values()) else None


def _samples(values: Mapping[str, Any]) -> dict[str, int]:
    per_query = values.get("generated_samples_per_query", values.get("effective_samples_per_query"))
    found = {"dataset": values.get("qsl_reported_total_count")}
    if isinstance(per_query, int) and isinstance(queries := values.get("result_query_count"), int):
        found["issued"] = queries * per_query
    return {name: count for name, count in found.items() if isinstance(count, int)}


def _load(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return how LoadGen was asked to drive the run, as far as its log says so under the names of `LoadSettings`."""
    wanted = {name: values.get(f"effective_{name}") for name in _LOAD}
    if values.get("effective_scenario") in ("Server", "Offline"):
        wanted["target_qps"] = values.get("effective_target_qps")
    return {name: value for name, value in wanted.items() if value is not None}
