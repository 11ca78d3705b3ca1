"""The mini profile: shipped weights of a small network, and clicks that are drawn again from their seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Graph, Precision, Weights
from mlbench.toolkit import OneGraph, ShippedProfile, build_once, file_sha256
from mlbench_dlrm_v2 import clicks
from mlbench_dlrm_v2.architecture import Architecture
from mlbench_dlrm_v2.clicks import PlantedTruth
from mlbench_dlrm_v2.dataset import AggregatedPairs, calibration_inputs, validation_samples
from mlbench_dlrm_v2.day_files import write_day
from mlbench_dlrm_v2.graphs import build_ranker, random_ranker, weights_file
from mlbench_dlrm_v2.program import Ranking

if TYPE_CHECKING:
    import numpy as np

WEIGHTS = "weights.safetensors"

OUTPUT_BOUNDS = {Precision.FP32: 1e-6, Precision.FP16: 6e-5, Precision.BF16: 1.8e-3, Precision.INT8: 2.8e-2}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedProfile, OneGraph):
    """Content of `mini.toml`, which describes the file beside it."""

    output_bounds = OUTPUT_BOUNDS
    output_unit = "in a probability"

    seed: int
    """Seed of the clicks."""
    rows: int
    """Rows of the day: the first half for validation, the second for calibration; neither was trained on."""
    architecture: Architecture

    @property
    def program(self) -> Ranking:
        """The program that feeds the graph."""
        return Ranking()

    def dataset(self) -> AggregatedPairs:
        """Open the validation rows, drawing the day first where the cache does not have it."""
        return validation_samples(self.day(), self.architecture, rows=self.rows)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the shipped weights or random ones."""
        if weights is Weights.RANDOM:
            return random_ranker(self.architecture, self.calibration_inputs)
        sha256 = self.files.sha256[WEIGHTS]
        return build_ranker(
            self.architecture,
            partial(weights_file, self.files.path / WEIGHTS, sha256=sha256),
            fingerprint=sha256,
            calibrate=self.calibration_inputs,
        )

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the rows of the day that are not validated on."""
        return calibration_inputs(self.day(), self.architecture)

    def truth(self) -> PlantedTruth:
        """Return the model of the clicks."""
        return PlantedTruth(self.seed, self.architecture.table_rows, self.architecture.hot_sizes)

    def day(self) -> Path:
        """Return the folder with the day's files in the official form, which are made once."""
        made_from = [self.seed, self.rows, str(self.architecture), file_sha256(Path(clicks.__file__))]
        return build_once("dlrm_v2", made_from, lambda folder: write_day(folder, self.truth().day(self.rows)))
