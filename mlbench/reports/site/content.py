"""The site's content about a workload: newest results, histories, and a comparison of backends."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mlbench.comparison.backends import BackendComparison, compare_backends
from mlbench.comparison.comparability import key_of
from mlbench.comparison.history import History, Step, histories_of
from mlbench.comparison.sessions import newest_of_a_tag, split_sessions
from mlbench.comparison.tested import MOST_SESSIONS
from mlbench.records.run_record import RunRecord
from mlbench.records.store.stored_runs import RunKind, StoredRuns
from mlbench.reports.history import is_shown
from mlbench.reports.summary import Combination, Summary, scenario_order, summarise

_LONGEST = 120


def workload_page(workload: str) -> str:
    """Return the path of a workload's page."""
    return f"workloads/{_file_name(workload)}.html"


def run_page(run_id: str) -> str:
    """Return the path of a run's page."""
    return f"runs/{_file_name(run_id)}.html"


def _file_name(name: str) -> str:
    """Return a name that is safe in every file system and URL: itself, or its safe characters with a hash."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:_LONGEST]
    if safe == name and name:
        return name
    return f"{safe}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:10]}"


MOST_REPEATS = 20
"""Most runs that are shown as the newest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A combination's newest runs, and each of its numbers over time."""

    newest: Combination
    """The runs of its newest session that have the newest tag."""
    count: int
    """All runs of the combination."""
    histories: tuple[History, ...]

    @property
    def name(self) -> str:
        """Name within its workload: ``onnxruntime int8, Server``."""
        return f"{self.newest.series}, {self.newest.scenario}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """A change of level."""

    trend: Trend
    history: History
    step: Step

    @property
    def run_id(self) -> str:
        """The first run of the new level."""
        return self.history.points[self.step.index].run_id

    @property
    def when(self) -> datetime:
        """When that run began."""
        return self.history.points[self.step.index].created


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadContent:
    """A workload's part of the site."""

    name: str
    summary: Summary
    """The newest runs of all combinations."""
    trends: tuple[Trend, ...]
    comparisons: tuple[BackendComparison, ...]

    @property
    def changes(self) -> list[LevelChange]:
        """All changes of level, newest first."""
        found = [
            LevelChange(trend=trend, history=history, step=step)
            for trend in self.trends
            for history in trend.histories
            for step in history.steps
        ]
        return sorted(found, key=lambda each: each.when, reverse=True)


def read_workloads(stored: StoredRuns, margin: float | Mapping[str, float]) -> Iterator[WorkloadContent]:
    """Yield each workload, in the order of their names; only one at a time is in memory."""
    for name in sorted({kind.newest.workload for kind in stored.kinds}):
        yield _read_workload(name, stored, margin)


def _read_workload(name: str, stored: StoredRuns, margin: float | Mapping[str, float]) -> WorkloadContent:
    runs = {key: _runs_of(kinds, stored) for key, kinds in _by_combination(stored.kinds, name).items()}
    shown = {
        key: [stored.read_whole(run) for run in newest_of_a_tag(some)[-MOST_REPEATS:]] for key, some in runs.items()
    }
    summary = summarise({"": [run for some in shown.values() for run in some]})
    trends = [
        Trend(
            newest=each,
            count=len(runs[key := _key(each.newest)]),
            histories=tuple(_newest_histories(histories_of(runs[key], margin=margin, whole=stored.read_whole))),
        )
        for each in sorted(summary.combinations, key=lambda each: (scenario_order(each.scenario), each.series))
    ]
    comparisons = [each for some in _by_scenario(shown, runs) for each in compare_backends(*some)]
    return WorkloadContent(name=name, summary=summary, trends=tuple(trends), comparisons=tuple(comparisons))


def _key(run: RunRecord) -> tuple[str, ...]:
    """Return the key of a combination, by which `summarise` groups runs."""
    return (run.environment.machine, *key_of(run, ()))


def _by_combination(kinds: Sequence[RunKind], workload: str) -> Mapping[tuple[str, ...], list[RunKind]]:
    found: dict[tuple[str, ...], list[RunKind]] = {}
    for kind in kinds:
        if kind.newest.workload == workload:
            found.setdefault(_key(kind.newest), []).append(kind)
    return found


def _runs_of(kinds: Sequence[RunKind], stored: StoredRuns) -> list[RunRecord]:
    """Return the runs of several kinds, oldest first."""
    return sorted((run for kind in kinds for run in stored.read_in_part(kind)), key=lambda run: run.created)


def _newest_histories(histories: Sequence[History]) -> Iterator[History]:
    """Yield one history of each number; of several, as after a change of the data, the newest.

    Those of memory and the like are only yielded where their level changed.
    """
    newest: dict[str, History] = {}
    for each in filter(is_shown, histories):
        known = newest.get(each.measure)
        if known is None or each.points[-1].created > known.points[-1].created:
            newest[each.measure] = each
    yield from newest.values()


def _by_scenario(
    shown: Mapping[tuple[str, ...], Sequence[RunRecord]], runs: Mapping[tuple[str, ...], Sequence[RunRecord]]
) -> Iterator[tuple[Sequence[RunRecord], Sequence[RunRecord]]]:
    """Yield the newest runs of each scenario in order of time, and runs that show the spread between sessions."""
    scenarios = {some[0].scenario for some in shown.values()}
    for scenario in sorted(scenarios, key=scenario_order):
        keys = [key for key, some in shown.items() if some[0].scenario == scenario]
        newest = sorted((run for key in keys for run in shown[key]), key=lambda run: run.created)
        yield newest, [run for key in keys for some in split_sessions(runs[key])[-MOST_SESSIONS:] for run in some]
