"""Trials of earlier searches that can be used again: made under the same conditions, by the same software."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mlbench.errors import MlbenchError
from mlbench.planning.requests import ResolvedRequest
from mlbench.records.environment import Environment, observe_environment
from mlbench.records.facts import KIND
from mlbench.records.run_record import RunRecord
from mlbench.records.store.reading import read_all
from mlbench.records.store.run_names import has_record, names_in
from mlbench.running.turns import why_not_again

_KIND = (*KIND, "tag", "repeat")


class StoredTrials:
    """The runs of results folders, read when they are first asked for."""

    def __init__(self, *, fresh: bool = False) -> None:
        """With ``fresh``, know none."""
        self._fresh = fresh
        self._environment: Environment | None = None
        self._records: dict[tuple[Path, str], Sequence[RunRecord]] = {}

    def find(self, request: ResolvedRequest) -> RunRecord | None:
        """Return the newest completed run of a request that was made as it would be made now."""
        if self._fresh:
            return None
        if self._environment is None:
            self._environment = observe_environment()
        plain = request.settings.plain()
        for record in self._of(request):
            is_like = all(str(getattr(record, name)) == str(getattr(request, name)) for name in _KIND)
            if is_like and {key: each.value for key, each in record.settings.items()} == plain:
                if not why_not_again(record, self._environment):
                    return record
        return None

    def _of(self, request: ResolvedRequest) -> Sequence[RunRecord]:
        """Return the completed runs whose ids name the same workload, backend and scenario, newest first."""
        names = (request.workload, request.backend, request.scenario)
        part = "".join("-" + re.sub(r"[^\w.+-]", "_", name) for name in names)  # as `new_run_id` spells them
        key = (request.results, part)
        if key not in self._records:
            folders = [request.results / name for name in _names(request.results) if f"{part}-" in name]
            records, _ = read_all(folder for folder in folders if has_record(folder))
            self._records[key] = [each for each in records if each.status == "completed"]
        return self._records[key]


def _names(results: Path) -> list[str]:
    try:
        return sorted(names_in(results), reverse=True)
    except MlbenchError:  # storing a run there will say so
        return []
