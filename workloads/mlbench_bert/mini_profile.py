"""The mini profile's shipped files and numbers, as `recipe.py` wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlbench import Graph, Precision, Weights
from mlbench.toolkit import OneGraph, ShippedProfile
from mlbench_bert.dataset import SquadWindows, calibration_samples
from mlbench_bert.graphs import OUTPUTS, Architecture, build_reader, random_reader
from mlbench_bert.program import Reading
from mlbench_bert.squad import Windows

if TYPE_CHECKING:
    import numpy as np

OUTPUT_BOUNDS = {Precision.FP32: 3e-5, Precision.FP16: 3.3e-3, Precision.BF16: 2.7e-2, Precision.INT8: 8.5e-2}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedProfile, OneGraph):
    """Content of `mini.toml`, which describes the files beside it."""

    output_bounds = OUTPUT_BOUNDS
    output_unit = "in a logit"

    validation_windows: int
    calibration_windows: int
    architecture: Architecture
    windows: Windows

    def dataset(self) -> SquadWindows:
        """Open the validation questions."""
        return self._open("dev.json", self.validation_windows)

    @property
    def program(self) -> Reading:
        """The program that feeds the graph and reads its logits."""
        return Reading(outputs=OUTPUTS, largest=self.windows.tokens)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the shipped weights or random ones."""
        if weights is Weights.RANDOM:
            return random_reader(self.architecture, self.windows.tokens, self.calibration_inputs)
        return build_reader(
            self.architecture,
            self.windows.tokens,
            self.files.path / "weights.safetensors",
            self.calibration_inputs,
            sha256=self.files.sha256["weights.safetensors"],
        )

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield windows of training text, never of validation text."""
        data = self._open("calibration.json", self.calibration_windows)
        for sample in calibration_samples(self.files.file("calibration.txt"), data):
            yield self.program.inputs([sample])

    def _open(self, name: str, count: int) -> SquadWindows:
        return SquadWindows(
            self.files.file(name),
            self.files.file("vocab.txt"),
            vocabulary_size=self.architecture.vocabulary,
            windows=self.windows,
            count=count,
        )
