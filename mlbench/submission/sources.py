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
from mlbench.rules.rounds import recognise_round
from mlbench.rules.tiers import RunLimits, official_limits
from mlbench.submission.accuracy import AccuracyTest, read_accuracy_test
from mlbench.submission.configuration import read_equal_issue
from mlbench.submission.rounds import explain_other_round
from mlbench.submission.tree import ACCURACY, DETAIL, Benchmark, ResultEntry, benchmark_of, scenario_of
from mlbench.system.documents import is_file, read_json_object

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
        DataError: it has no performance log that can be read, is of another round, or of no benchmark of v4.1.
    """
    file = entry.performance / DETAIL
    detail = _performance_log(file)
    if reason := explain_other_round(recognise_round(detail.values)):
        raise DataError(reason)
    benchmark, scenario = benchmark_of(entry), scenario_of(entry)
    _check_kind(file, detail, scenario)

    unread: list[Unread] = []
    targets = [dataclasses.replace(each, required=each.name == benchmark.variant) for each in benchmark.rules.targets]
    required = [each for each in targets if each.required]
    limits = official_limits(benchmark.rules, scenario)
    limits = dataclasses.replace(limits, equal_issue=limits.equal_issue and entry.division != "open")
    configured = None
    if limits.equal_issue:
        configured, missing = read_equal_issue(entry, benchmark.rules.name, scenario.loadgen)
        unread += [Unread.because(conf, error) for conf, error in missing]
    read = functools.partial(read_json_object, what="description")
    return Sources(
        entry=entry,
        benchmark=benchmark,
        scenario=scenario,
        detail=detail,
        limits=limits,
        targets=targets,
        test=_if_readable(lambda path: read_accuracy_test(path.parent, required), entry.accuracy / ACCURACY, unread),
        description=_if_readable(read, entry.system_file, unread) or {},
        implementation=_if_readable(read, entry.measurement_file, unread) or {},
        equal_issue=configured,
        unread=unread,
    )


def _performance_log(file: Path) -> DetailLog:
    if not is_file(file):
        raise DataError(f"there is no {file.parent.parent.name}/{file.parent.name}/{file.name}.")
    return read_detail(file)


def _check_kind(file: Path, detail: DetailLog, scenario: Scenario) -> None:
    mode, found = (detail.values.get(f"effective_{name}") for name in ("test_mode", "scenario"))
    if mode == "AccuracyOnly":
        raise DataError(f"{file} is the log of an accuracy test.")
    if found != scenario.loadgen:
        raise DataError(f"{file} is a log of {found}, in a folder of {scenario.name}.")


def _if_readable(read: Callable[[Path], _Read], file: Path, unread: list[Unread]) -> _Read | None:
    try:
        return read(file)
    except DataError as error:
        unread.append(Unread.because(file, error))
        return None
