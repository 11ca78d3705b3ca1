"""The full profile: day 23 of Criteo's click logs and the official checkpoint, from the user's paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Graph, UsageError, Weights
from mlbench.toolkit import OneGraph, UserFilesProfile, check_files
from mlbench_dlrm_v2.architecture import OFFICIAL_TABLE_ROWS, Architecture, cap_tables
from mlbench_dlrm_v2.dataset import (
    OFFICIAL_ROWS,
    AggregatedPairs,
    calibration_inputs,
    random_samples,
    validation_samples,
)
from mlbench_dlrm_v2.graphs import build_ranker, random_ranker
from mlbench_dlrm_v2.program import Ranking
from mlbench_dlrm_v2.snapshot import read_snapshot

if TYPE_CHECKING:
    import numpy as np

    from mlbench_dlrm_v2.workload import DlrmV2Options


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files."""

    architecture: Architecture
    rows: int
    """Rows of the day."""


OFFICIAL = OfficialFiles(architecture=Architecture(), rows=OFFICIAL_ROWS)


@dataclass(frozen=True, slots=True)
class FullProfile(UserFilesProfile[OfficialFiles], OneGraph):
    """The official model over the files that the options name."""

    official = OFFICIAL

    options: DlrmV2Options
    weights: Weights

    @property
    def architecture(self) -> Architecture:
        """The network's sizes; random tables are no longer than the option says."""
        if self.weights is Weights.RANDOM:
            return Architecture(table_rows=cap_tables(self.options.table_rows))
        return self.files.architecture

    @property
    def program(self) -> Ranking:
        """The program that feeds the graph."""
        return Ranking()

    def check(self) -> None:
        """Raise `UsageError` for options that are missing, not used, or contradictory."""
        options, largest = self.options, max(OFFICIAL_TABLE_ROWS)
        check_files("dlrm-v2", self.weights, options, {"data": "data", "weights": "weights"})
        if self.weights is Weights.TRAINED:
            if options.table_rows != type(options)().table_rows:
                raise UsageError("table_rows is for random weights.", hint="Leave out workload.table_rows.")
            return
        if options.data and options.table_rows < largest:
            raise UsageError(
                f"Criteo's indices need all rows of the tables, not the first {options.table_rows}.",
                hint=f"Set workload.table_rows={largest}, which takes 97 GiB of memory, or leave out workload.data.",
            )

    def dataset(self) -> AggregatedPairs:
        """Open the validation half of the day; without a path, random rows."""
        if self.options.data is None:
            return random_samples(self.architecture)
        return validation_samples(Path(self.options.data), self.architecture, rows=self.files.rows)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the official weights or random ones."""
        calibrate = self._calibration_inputs if self.options.data else None
        if weights is Weights.RANDOM:
            return random_ranker(self.architecture, calibrate)
        assert self.options.weights is not None
        snapshot = read_snapshot(Path(self.options.weights))
        return build_ranker(
            self.architecture,
            lambda: snapshot,
            fingerprint=snapshot.fingerprint,
            calibrate=calibrate,
        )

    def _calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        assert self.options.data is not None
        return calibration_inputs(Path(self.options.data), self.architecture)
