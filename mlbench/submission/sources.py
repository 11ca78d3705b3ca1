"""Reads the files of one result of an official tree."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mlbench.contracts.metric import Target
from mlbench.contracts.scenario import Scenario
from mlbench.errors import DataError, printable
from mlbench.loadgen.logs import DetailLog, read_detail
from mlbench.rules.official import recognise_round
from mlbench.rules.tiers import RunLimits, official_limits
from mlbench.submission.accuracy import AccuracyTest, read_accuracy_test
from mlbench.submission.configuration import read_equal_issue
from mlbench.submission.endpoints import explain_endpoints
from mlbench.submission.rounds import explain_other_round
from mlbench.submission.scores import read_printed
from mlbench.submission.tree import ACCURACY, DETAIL, Benchmark, ResultEntry, benchmark_of, round_scenario, scenario_of
from mlbench.system.documents import is_file, read_json_object

CONFIGURATION = "conf"
"""Where equal issue is read in the files of LoadGen's configuration; see `CheckerScope.equal_issue_from`."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Unread:
    """A file or folder of a tree that could not be read, and why."""

    path: Path
    reason: str
    round: str = ""
    """The other round that it belongs to."""

    @classmethod
    def because(cls, path: Path, error: DataError) -> Unread:
        """Return the reason without repeating the path in it."""
        return cls(path, error.message.replace(printable(str(path)), printable(path.name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The files of one result."""

    entry: ResultEntry
    benchmark: Benchmark
    scenario: Scenario
    """That of the folder."""
    measured: Scenario
    """The one whose log is there; another than ``scenario`` where the result is inferred."""
    detail: DetailLog
    """Detail log of the performance test."""
    limits: RunLimits
    """The official limits, as far as they apply to the division."""
    targets: Sequence[Target]
    """Targets of all accuracy variants; those of the result's own variant are required."""
    test: AccuracyTest | None
    """None: its scores could not be read."""
    description: Mapping[str, Any]
    """Description of the system; empty where it could not be read."""
    implementation: Mapping[str, Any]
    equal_issue: bool | None
    """Whether LoadGen was configured to send every sample equally often; None: unknown, or not required."""
    unread: list[Unread] = field(default_factory=list)
    """Optional files that could not be read."""

    def if_readable(self, read: Callable[[Path], _Read], file: Path) -> _Read | None:
        """Return a file's contents, or store why it could not be read."""
        return _if_readable(read, file, self.unread)


def read_sources(entry: ResultEntry) -> Sources:
    """Return the files of a result.

    Raises:
        DataError: it has no performance log that can be read, or is of a round or a benchmark without rules here.
    """
    if reason := explain_endpoints(entry):
        raise DataError(reason)
    file = entry.performance / DETAIL
    detail = _performance_log(file)
    if reason := explain_other_round(recognise_round(detail.values)):
        raise DataError(reason)
    benchmark, checks = benchmark_of(entry), entry.round.checks
    rules = benchmark.rules
    scenario = rules.adapt(scenario_of(entry))
    measured = rules.adapt(_scenario_in_log(file, detail, entry, scenario))

    unread: list[Unread] = []
    targets = _targets(benchmark, scenario, entry.accuracy / ACCURACY)
    required = [each for each in targets if each.required]
    limits = official_limits(rules, measured)
    is_let_off = entry.division == "open" and checks.keeps_own_scope
    limits = dataclasses.replace(limits, equal_issue=limits.equal_issue and not is_let_off)
    configured = None
    if limits.equal_issue and checks.equal_issue_from == CONFIGURATION:
        configured, missing = read_equal_issue(entry, rules.name, scenario.loadgen)
        unread += [Unread.because(conf, error) for conf, error in missing]
    read = functools.partial(read_json_object, what="description")
    return Sources(
        entry=entry,
        benchmark=benchmark,
        scenario=scenario,
        measured=measured,
        detail=detail,
        limits=limits,
        targets=targets,
        test=_if_readable(
            lambda path: read_accuracy_test(
                path.parent, required, entry.round, rules.accuracy_samples_in(scenario.official)
            ),
            entry.accuracy / ACCURACY,
            unread,
        ),
        description=_if_readable(read, entry.system_file, unread) or {},
        implementation=_if_readable(read, entry.measurement_file, unread) or {},
        equal_issue=configured,
        unread=unread,
    )


def _performance_log(file: Path) -> DetailLog:
    if not is_file(file):
        raise DataError(f"there is no {file.parent.parent.name}/{file.parent.name}/{file.name}.")
    return read_detail(file)


def _scenario_in_log(file: Path, detail: DetailLog, entry: ResultEntry, scenario: Scenario) -> Scenario:
    """Return the scenario of a log in a scenario's folder: that one, or one that the round infers it from."""
    mode, found = (detail.values.get(f"effective_{name}") for name in ("test_mode", "scenario"))
    if mode == "AccuracyOnly":
        raise DataError(f"{file} is the log of an accuracy test.")
    if found == scenario.loadgen:
        return scenario
    checks = entry.round.checks
    if not checks.counts_inferred or (found, scenario.name) not in checks.inferred:
        raise DataError(f"{file} is a log of {found}, in a folder of {scenario.name}.")
    return round_scenario(entry.round, str(found))


def _targets(benchmark: Benchmark, scenario: Scenario, scores: Path) -> list[Target]:
    """Return the targets of all accuracy variants, of which those of the benchmark's are required.

    A bound of a score that not every result prints is a target where the file of scores has it.
    """
    rules = benchmark.rules
    held = [each for each in rules.upper_limits if is_file(scores) and read_printed(scores, each.score) is not None]
    targets = (*rules.targets_in(scenario.official), *held)
    return [dataclasses.replace(each, required=each.name == benchmark.variant) for each in targets]


def _if_readable(read: Callable[[Path], _Read], file: Path, unread: list[Unread]) -> _Read | None:
    try:
        return read(file)
    except DataError as error:
        unread.append(Unread.because(file, error))
        return None
