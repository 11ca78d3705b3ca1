"""Samples: runs of a day's rows, of memory-mapped files or random ones of the same shape."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from mlbench import DataError, Dataset
from mlbench_dlrm_v2.aggregation import QUANTILES, sample_boundaries
from mlbench_dlrm_v2.architecture import DENSE_FEATURES, Architecture
from mlbench_dlrm_v2.day_files import Day, open_day
from mlbench_dlrm_v2.program import Sample, join_indices

OFFICIAL_ROWS = 178_274_637
"""Rows of day 23."""

PERFORMANCE_COUNT = 204_800
"""Source: MLPerf Inference v4.1, mlperf.conf: dlrm-v2.*.performance_sample_count_override."""

CALIBRATION_ROWS = 128_000
"""Those behind the validation rows. Source: MLPerf Inference v4.1, recommendation/dlrm_v2, README."""

CALIBRATION_CALL = 2_000
RANDOM_SEED = 0
RANDOM_ROWS = 2**16
READ_TOGETHER = 2**20

JOINED_SHARE = 0.25
"""Share of the free memory that loaded rows may take again, with their features side by side."""


@dataclass(frozen=True, slots=True)
class Truth:
    """References for the replies to samples."""

    labels: np.ndarray
    """(rows,) int32: 1 for a click, else 0."""
    starts: np.ndarray
    """(samples,): the first row of each."""
    ends: np.ndarray
    """(samples,): the row behind the last of each."""


class AggregatedPairs(Dataset):
    """Runs of consecutive rows; a sample is views of arrays, never a copy."""

    def __init__(
        self, day: Day, starts: np.ndarray, ends: np.ndarray, *, table_rows: Sequence[int], fingerprint: str
    ) -> None:
        """Store where the samples are.

        Args:
            day: the rows.
            starts: the first row of each sample.
            ends: the row behind its last.
            table_rows: of each embedding table: every index must be smaller.
            fingerprint: a hash of the rows.
        """
        self.count = len(starts)
        self.performance_count = min(PERFORMANCE_COUNT, self.count)
        self.truth = Truth(day.labels[:, 0], starts, ends)
        self._day = day
        self._ranges: list[tuple[int, int]] = list(zip(starts.tolist(), ends.tolist(), strict=True))
        self._table_rows = table_rows
        self._fingerprint = fingerprint
        self._joined: dict[int, np.ndarray] = {}

    @property
    def fingerprint(self) -> str:
        """A hash of the rows."""
        return self._fingerprint

    def load(self, indices: Sequence[int]) -> None:
        """Read these samples, which brings their pages into memory, and check all that would fail while measuring.

        Where memory suffices, the indices of a row are put side by side here, and not in each call of the graph.

        Raises:
            DataError: an index has no row in its table, or a dense feature is not a number.
        """
        ranges = list(_merge_ranges(self._ranges[index] for index in indices))
        for start, end in ranges:
            for first in range(start, end, READ_TOGETHER):
                self._check(first, min(first + READ_TOGETHER, end))
        row_bytes = sum(part.itemsize * part.shape[1] for part in self._day.hot)
        if row_bytes * sum(end - start for start, end in ranges) <= JOINED_SHARE * psutil.virtual_memory().available:
            self._join(indices, ranges)

    def unload(self, indices: Sequence[int]) -> None:
        """Forget joined rows; which pages of files stay in memory is the operating system's business."""
        for index in indices:
            self._joined.pop(index, None)

    def sample(self, index: int) -> Sample:
        """Return dense features and indices of a sample's rows."""
        start, end = self._ranges[index]
        joined = self._joined.get(index)
        hot = [part[start:end] for part in self._day.hot] if joined is None else [joined]
        return self._day.dense[start:end], hot

    def _join(self, indices: Sequence[int], ranges: Sequence[tuple[int, int]]) -> None:
        """Keep the rows of these ranges joined; samples that share rows are views of one array."""
        starts = [start for start, _ in ranges]
        blocks = [join_indices([self._day[start:end].hot]) for start, end in ranges]
        for index in indices:
            start, end = self._ranges[index]
            block = bisect_right(starts, start) - 1
            self._joined[index] = blocks[block][start - starts[block] : end - starts[block]]

    def _check(self, start: int, end: int) -> None:
        rows = self._day[start:end]
        if not np.isfinite(rows.dense).all():
            raise DataError(f"a dense feature of rows {start} to {end - 1} is not a number.")
        for feature, (indices, table_rows) in enumerate(zip(rows.hot, self._table_rows, strict=True)):
            largest = indices.view(np.uint32).max()  # seen so, a negative index is a large one
            if largest >= table_rows:
                row = start + int((indices.view(np.uint32) == largest).any(axis=1).argmax())
                raise DataError(
                    f"row {row} has index {largest.astype(np.int32)} in categorical feature {feature}, "
                    f"whose table has {table_rows} rows.",
                    hint="Data and embedding tables do not belong together.",
                )


def validation_samples(folder: Path, architecture: Architecture, *, rows: int) -> AggregatedPairs:
    """Open a day's files; the first half of its rows make up the samples.

    Args:
        folder: holds the files.
        architecture: says how many indices each feature has, and how many rows its table.
        rows: how many the day must have.

    Raises:
        DataError: a file is missing or of another form, or the day has another number of rows.
    """
    day = open_day(folder, architecture.hot_sizes)
    if len(day) != rows:
        raise DataError(
            f"{folder} contains {len(day)} rows, not {rows}.", hint="The files are from a different day, or truncated."
        )
    boundaries = sample_boundaries(validation_rows(day))
    return AggregatedPairs(
        day, boundaries[:-1], boundaries[1:], table_rows=architecture.table_rows, fingerprint=day.fingerprint()
    )


def validation_rows(day: Day) -> int:
    """Return how many rows are validated on: the first half, rounded up."""
    return len(day) - len(day) // 2


def random_samples(architecture: Architecture) -> AggregatedPairs:
    """Return as many samples as the official data has, of the same sizes, over 65,536 seeded random rows.

    Each is somewhere else in these rows; indices are uniform, so that no cache holds what they point at.
    """
    rng = np.random.default_rng(RANDOM_SEED)
    counts = np.floor(rng.lognormal(1, 1.2, (RANDOM_ROWS, DENSE_FEATURES)))
    sizes_and_rows = zip(architecture.hot_sizes, architecture.table_rows, strict=True)
    hot = [rng.integers(rows, size=(RANDOM_ROWS, size), dtype=np.int32) for size, rows in sizes_and_rows]
    day = Day(np.log(counts + 3).astype(np.float32), hot, np.zeros((RANDOM_ROWS, 1), dtype=np.int32))
    boundaries = sample_boundaries(OFFICIAL_ROWS - OFFICIAL_ROWS // 2)
    sizes = np.diff(boundaries)
    starts = boundaries[:-1] % (RANDOM_ROWS - QUANTILES.max())
    fingerprint = f"uniform-seed{RANDOM_SEED}-{RANDOM_ROWS}-{max(architecture.table_rows)}"
    return AggregatedPairs(day, starts, starts + sizes, table_rows=architecture.table_rows, fingerprint=fingerprint)


def calibration_inputs(folder: Path, architecture: Architecture) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield the graph's inputs for the rows behind the validation rows, 2,000 at a time.

    Raises:
        DataError: a file is missing or of another form.
    """
    day = open_day(folder, architecture.hot_sizes)
    first = validation_rows(day)
    for start in range(first, min(first + CALIBRATION_ROWS, len(day)), CALIBRATION_CALL):
        rows = day[start : min(start + CALIBRATION_CALL, first + CALIBRATION_ROWS)]
        yield {"dense": np.ascontiguousarray(rows.dense), "indices": join_indices([rows.hot])}


def _merge_ranges(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the ranges in order, those that touch or overlap as one."""
    start = end = 0
    for next_start, next_end in sorted(set(ranges)):
        if next_start > end:
            if end > start:
                yield start, end
            start = next_start
        end = max(end, next_end)
    if end > start:
        yield start, end
