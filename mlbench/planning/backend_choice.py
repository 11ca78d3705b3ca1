"""The backend of a run that names none: the one of the highest rank, unless earlier runs showed a faster one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.comparison.backends import FasterBackend, faster_backends
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.planning.requests import RunRequest
from mlbench.records.environment import observe_environment
from mlbench.records.facts import KIND
from mlbench.records.run_record import RunRecord
from mlbench.records.store.index import open_index
from mlbench.records.store.reading import read_all
from mlbench.records.store.run_names import names_in
from mlbench.settings.layers import SET_FOR_RUN

if TYPE_CHECKING:
    import duckdb

MOST_RUNS = 5
"""Newest runs of a backend that are read: the first of them counts that is evidence."""

_SAME = [name for name in KIND if name not in ("backend", "precision")]
"""Facts that evidence shares with the run."""

_OWN = ("backend.", "workload.")
"""Prefixes of settings that may fit no other backend, or say which model it is."""


def faster_than_ranked(requests: Sequence[RunRequest], plugins: Plugins, results: Path) -> dict[int, FasterBackend]:
    """Return the earlier runs that speak for another backend, by the position of the request.

    They are valid and accurate runs of this machine, made without other load and without settings of their own, in the
    precision that both backends would run in; see `faster_backends`. At a rate that is sent, none is faster.

    Args:
        requests: with the backend of the highest rank.
        plugins: that are installed.
        results: folder of earlier runs.
    """
    asked = {
        position: request
        for position, request in enumerate(requests)
        if not request.network and not any(key.startswith(_OWN) for key in request.overrides)
    }
    if not asked or not names_in(results):
        return {}
    try:
        with open_index(results) as database:
            earlier = _EarlierRuns(results, database, observe_environment().machine)
            found = {position: _faster(request, plugins, earlier) for position, request in asked.items()}
    except UsageError:  # no run there can be read
        return {}
    return {position: each for position, each in found.items() if each}


def _faster(request: RunRequest, plugins: Plugins, earlier: _EarlierRuns) -> FasterBackend | None:
    precision = request.precision or plugins.probe(request.backend).precisions[0]
    names = [
        name
        for name, probe in plugins.probes().items()
        if probe.is_available and probe.rank >= 0 and precision in probe.precisions
        if request.precision or precision == probe.precisions[0]
    ]
    facts = {name: str(getattr(request, name)) for name in _SAME} | {"precision": str(precision)}
    runs = [run for run in earlier.evidence(facts) if run.backend in names]
    ours = [run for run in runs if run.backend == request.backend]
    return next(faster_backends(ours, [run for run in runs if run.backend != request.backend]), None)


@dataclass(frozen=True, slots=True)
class _EarlierRuns:
    """Runs of one machine in a results folder, whose index is open."""

    results: Path
    database: duckdb.DuckDBPyConnection
    machine: str

    def evidence(self, facts: Mapping[str, str]) -> Iterator[RunRecord]:
        """Yield the newest run of each backend that is evidence for runs of these facts."""
        condition = " AND ".join(f'"{name}" = ?' for name in facts)
        rows = self.database.execute(
            f"SELECT max(folder, {MOST_RUNS}) FROM stored.records WHERE verdict.is_valid AND verdict.is_accurate "
            f"AND environment.machine = ? AND {condition} GROUP BY backend",
            [self.machine, *facts.values()],
        ).fetchall()
        for (newest,) in rows:
            records, _ = read_all(self.results / folder for folder in newest)
            yield from list(filter(_is_evidence, records))[:1]


def _is_evidence(run: RunRecord) -> bool:
    """Return whether a run was made here, had the machine for itself, and no settings of its own."""
    is_plain = all(each.layer not in SET_FOR_RUN for each in run.settings.values())
    return is_plain and not run.nodes and not (run.other_work and run.other_work.is_noticeable)
