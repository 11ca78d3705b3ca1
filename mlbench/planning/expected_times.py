"""Expected time, disk and memory of planned runs, from runs stored in a results folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from statistics import median

from mlbench.contracts.workload import Profile
from mlbench.errors import MlbenchError
from mlbench.planning.requests import RunRequest
from mlbench.records.expected_cost import Basis, ExpectedCost, ExpectedTime
from mlbench.records.facts import KIND
from mlbench.records.run_record import EXPORT, RunRecord
from mlbench.records.store.reading import read_each
from mlbench.records.store.run_names import has_record, names_in

NEWEST = 300
"""Most stored runs that are read; older ones are less relevant."""

_MINI_REST_S = 16.0
"""What a run of a mini model takes beyond its tier's least duration, on the mean: 50 runs took 873 s in tier `smoke` on
two cores of a Xeon, by their records (`python3 -m nox -s demo`)."""

_LEAST_DURATION = "load.min_duration_ms"

StoredRun = tuple[Path, RunRecord]
"""A run folder with its record."""


class KnownTimes:
    """Durations of stored runs."""

    def __init__(self, records: Iterable[RunRecord] = ()) -> None:
        """Take in records; those of failed runs say nothing of how long a run takes that does not fail."""
        self._records: list[RunRecord] = []
        for record in records:
            self.add(record)

    def add(self, record: RunRecord) -> None:
        """Take in another record."""
        if record.status == "completed" and record.duration_ns is not None:
            self._records.append(record)

    def expect(self, request: RunRequest) -> ExpectedTime:
        """Return how long a run will take: as the middle one of those most like it."""
        least_s = _least_s(request)
        for basis, names in (
            (Basis.SAME, KIND),
            (Basis.SIMILAR, ("workload", "profile", "tier")),
            (Basis.SIMILAR, ("profile", "tier")),
        ):
            found = [record for record in self._records if _is_like(record, request, names)]
            if basis is Basis.SAME:
                found = [record for record in found if (record.accuracy is not None) == request.wants_accuracy]
            if found:
                seconds = median(map(_seconds, found))
                return ExpectedTime(seconds=max(least_s, seconds), basis=basis)
        if request.profile is Profile.MINI:
            return ExpectedTime(seconds=least_s + _MINI_REST_S, basis=Basis.ELSEWHERE)
        return ExpectedTime(seconds=least_s, basis=Basis.NOTHING)

    def expect_all(self, requests: Iterable[RunRequest]) -> ExpectedTime:
        """Return how long runs will take one after another; none of them take no time."""
        each = [self.expect(request) for request in requests]
        return ExpectedTime(
            seconds=sum(time.seconds for time in each), basis=max((time.basis for time in each), default=Basis.SAME)
        )


def newest_runs(results: Path) -> Sequence[StoredRun]:
    """Return the newest runs of a results folder; none of one that cannot be read, and none that cannot be read.

    A hidden folder in a results folder holds runs of the same kinds, made for something else: both are looked at.
    """
    places = [results, results.parent] if results.name.startswith(".") else [results]
    found = [folder for place in places for folder in _run_folders(place)]
    found.sort(key=lambda folder: folder.name, reverse=True)
    folders = islice(filter(has_record, found), NEWEST)
    return [(folder, record) for folder, record in read_each(folders) if isinstance(record, RunRecord)]


def _run_folders(results: Path) -> list[Path]:
    try:
        return [results / name for name in names_in(results)]
    except MlbenchError:  # storing a run there will say so
        return []


def cost_of(requests: Sequence[RunRequest], stored: Sequence[StoredRun]) -> ExpectedCost:
    """Return the expected cost of these runs, from stored ones."""
    known = KnownTimes(record for _, record in stored)
    bases = [known.expect(request).basis for request in requests]
    sizes = [_size_bytes(folder) for folder, _ in stored] or [0]
    return ExpectedCost(
        runs=len(requests),
        similar_runs=bases.count(Basis.SIMILAR),
        elsewhere_runs=bases.count(Basis.ELSEWHERE),
        unknown_runs=bases.count(Basis.NOTHING),
        time=known.expect_all(requests),
        disk_bytes=round(median(sizes) * len(requests)),
        peak_memory_bytes=max((record.peak_memory_bytes or 0 for _, record in stored), default=0) or None,
    )


def _seconds(record: RunRecord) -> float:
    """Return a run's duration without its exports, which the cache has by now."""
    return ((record.duration_ns or 0) - record.stages_ns.get(EXPORT, 0)) / 1e9


def _least_s(request: RunRequest) -> float:
    """Return how long the measured part lasts at least."""
    by_tier = request.tier.min_duration_ms
    asked = {**request.suite_settings, **request.overrides}.get(_LEAST_DURATION, by_tier)
    with suppress(ValueError):
        return max(0.0, float(asked) / 1000)
    return by_tier / 1000


def _is_like(record: RunRecord, request: RunRequest, names: Iterable[str]) -> bool:
    """Return whether a record has what a request asks for; a precision that is not asked for may be any."""
    return all(
        getattr(request, name) is None or str(getattr(record, name)) == str(getattr(request, name)) for name in names
    )


def _size_bytes(folder: Path) -> int:
    """Return the size of all files of a run folder that can be seen."""
    total_bytes = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # gone, or not ours to see
                total_bytes += os.lstat(os.path.join(place, name)).st_size
    return total_bytes
