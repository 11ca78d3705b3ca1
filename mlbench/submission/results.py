"""One result of an official tree, as a run record.

The number is read from LoadGen's log and judged by mlbench's own rules, which are stricter than the official checker in
known places: a run that LoadGen calls INVALID, or whose early stopping test failed, is INVALID here. Accuracy is held
against the target of the closed division, also where the open one demands none. Replies are not in a tree, so the rules
about them are not applied, and no imported run is called conformant. A result is judged by the rules of its own round.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from mlbench.contracts.load_pattern import MOMENT
from mlbench.contracts.metric import Target
from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError
from mlbench.loadgen.logs import DetailLog
from mlbench.records.import_record import ImportRecord
from mlbench.records.run_record import AccuracyRecord, ResultRecord, RunRecord, SeedsRecord, TargetRecord
from mlbench.records.scenario_record import ScenarioRecord
from mlbench.records.store.run_folder import new_run_id
from mlbench.records.work_record import EnergyRecord
from mlbench.rules.official import WorkloadRules
from mlbench.submission.accuracy import AccuracyTest
from mlbench.submission.counts import count_samples, make_result
from mlbench.submission.power import SPL, read_power
from mlbench.submission.sources import Sources, Unread, read_sources
from mlbench.submission.systems import UNKNOWN, environment_of, runtime_of
from mlbench.submission.tree import DETAIL, ResultEntry
from mlbench.submission.verdict import judge_result
from mlbench.system.documents import refuse_odd_values
from mlbench.version import __version__

_NO_POWER = f"power was metered, and {SPL} contains no reading that can be used"
_LONGEST_ID_BYTES = 240
_MOMENTS = {"power_begin": MOMENT, "test_datetime": "%Y-%m-%dT%H:%M:%SZ"}
"""Where a log says when it was made: the first is UTC, the second local time of an unknown zone."""


def read_result(entry: ResultEntry, *, tag: str = "") -> tuple[RunRecord, list[Unread]]:
    """Return the record of a result, and the files that would have told more.

    Raises:
        DataError: it has no performance log that can be read, or is of a round or a benchmark without rules here.
    """
    with refuse_odd_values("its files"):
        sources = read_sources(entry)
        return _result(sources, tag), sources.unread


def _result(sources: Sources, tag: str) -> RunRecord:
    entry, detail, scenario = sources.entry, sources.detail, sources.scenario
    rules = sources.benchmark.rules
    owner = f"{entry.submitter}/{entry.system}"
    created, log_sha256 = _creation_time(detail), _sha256(entry.performance / DETAIL)
    samples = count_samples(detail, rules, sources.measured)
    result = make_result(detail, rules, scenario, samples, measured=sources.measured)
    energy = _energy(sources, result, samples)
    load = dataclasses.asdict(_LoggedLoad.of(detail, sources.measured))
    return RunRecord(
        run_id=_run_id(created, (entry.model, entry.submitter, entry.system, scenario.name), log_sha256[:8]),
        created=created,
        duration_ns=None,
        mlbench_version=__version__,
        round=entry.round.name,
        workload=rules.workload,
        backend=owner,
        scenario=scenario.name,
        scenario_facts=ScenarioRecord.of(scenario),
        profile="full",
        tier="valid",
        weights="trained",
        precision=str(sources.implementation.get("weight_data_types") or UNKNOWN).strip().lower(),
        tag=tag,
        imported=_origin(sources, log_sha256),
        status="completed",
        result=result,
        accuracy=_accuracy(sources.test, sources.targets),
        verdict=judge_result(sources),
        energy=energy,
        not_measured={"energy": _NO_POWER} if entry.has_power and not energy else {},
        loadgen_version=str(detail.values.get("loadgen_version", "")),
        seeds=_seeds(detail),
        samples=samples,
        load={name: value for name, value in load.items() if value is not None},
        limits=dataclasses.asdict(sources.limits),
        runtime=runtime_of(sources.description),
        environment=environment_of(owner, sources.description),
    )


def _run_id(created: datetime, names: tuple[str, ...], ending: str) -> str:
    """Return the id of a result; of names that would make none of a folder any more, the beginnings and a hash."""
    run_id = new_run_id(created, *names, ending=ending)
    if len(run_id.encode()) <= _LONGEST_ID_BYTES:
        return run_id
    digest = hashlib.sha256("/".join(names).encode(errors="surrogateescape")).hexdigest()
    return new_run_id(
        created, *(name.encode("ascii", "replace").decode()[:40] for name in names), digest[:8], ending=ending
    )


def _creation_time(detail: DetailLog) -> datetime:
    for key, form in _MOMENTS.items():
        try:
            return datetime.strptime(str(detail.values.get(key)), form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise DataError("the log does not say when it was made.")


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _origin(sources: Sources, log_sha256: str) -> ImportRecord:
    entry = sources.entry
    return ImportRecord(
        path=entry.path,
        log_sha256=log_sha256,
        division=entry.division,
        submitter=entry.submitter,
        system=entry.system,
        variant=sources.benchmark.variant,
        inferred_from="" if sources.measured == sources.scenario else sources.measured.name,
        summary_unit=summary_unit(sources.benchmark.rules, sources.scenario),
        description=dict(sources.description),
    )


def _energy(sources: Sources, result: ResultRecord, samples: Mapping[str, int]) -> EnergyRecord | None:
    if not sources.entry.has_power:
        return None
    detail, issued = sources.detail, samples.get("issued")
    return sources.if_readable(lambda file: read_power(file, detail, result, issued), sources.entry.performance / SPL)


def _accuracy(test: AccuracyTest | None, targets: Sequence[Target]) -> AccuracyRecord | None:
    if test is None:
        return None
    printed = test.printed
    held = [_judge_target(target, printed.scores.get(target.score, math.nan)) for target in targets]
    is_met = all(each.is_met for each in held if each.required)
    return AccuracyRecord(scores=dict(printed.scores), targets=held, line=printed.line, is_met=is_met)


def _judge_target(target: Target, score: float) -> TargetRecord:
    fields = dataclasses.asdict(target)
    return TargetRecord.model_validate({**fields, "value": score, "is_met": target.is_met_by(score)})


def _seeds(detail: DetailLog) -> SeedsRecord | None:
    found = {name: detail.values.get(f"effective_{name}_rng_seed") for name in SeedsRecord.model_fields}
    return SeedsRecord.model_validate(found) if all(isinstance(each, int) for each in found.values()) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LoggedLoad:
    """How LoadGen was asked to drive a run, under the names of `LoadSettings`; None where its log does not say it."""

    min_duration_ms: int | None
    min_query_count: int | None
    performance_sample_count: int | None
    samples_per_query: int | None
    target_qps: float | None
    """Arrivals per second; None also in a scenario that has no such setting."""

    @classmethod
    def of(cls, detail: DetailLog, scenario: Scenario) -> Self:
        """Return the facts in a detail log."""
        values = detail.values
        sends_rate = "target_qps" in scenario.pattern.settings
        return cls(
            min_duration_ms=values.get("effective_min_duration_ms"),
            min_query_count=values.get("effective_min_query_count"),
            performance_sample_count=values.get("effective_performance_sample_count"),
            samples_per_query=values.get("effective_samples_per_query"),
            target_qps=values.get("effective_target_qps") if sends_rate else None,
        )


def summary_unit(rules: WorkloadRules, scenario: Scenario) -> str:
    """Return the unit that the summary of a workload's round prints: ``Tokens/s``, ``Latency (ms)``.

    Source: submission checkers, ``special_unit_dict`` and ``SPECIAL_UNIT_DICT``.
    """
    units, name = rules.round.units, scenario.official
    if printed := units.printed.get(rules.name, {}).get(name):
        return printed
    if not scenario.higher_is_better:
        return "Latency (s)" if rules.name in units.seconds else "Latency (ms)"
    if rules.name in units.tokens:
        return "Tokens/s"
    if rules.name in units.tasks:
        return "Tasks/s"
    return "Queries/s" if scenario.sends_rate else "Samples/s"
