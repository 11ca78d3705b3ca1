"""The mini profile: a small 3D-UNet and drawn scans, both shipped; `recipe.py` makes all of it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mlbench import Graph, Precision, Weights
from mlbench.toolkit import OneGraph, ShippedProfile
from mlbench_unet3d.dataset import PreparedCases, calibration_inputs
from mlbench_unet3d.device_form import DeviceForm
from mlbench_unet3d.graphs import IMAGE, Architecture, build_segmenter, random_segmenter
from mlbench_unet3d.preprocessing import Grid

WEIGHTS, VALIDATION, CALIBRATION = "weights.safetensors", "validation.zip", "calibration.zip"
CALIBRATION_LIST = "calibration.txt"

OUTPUT_BOUNDS = {Precision.FP32: 1e-5, Precision.BF16: 4e-5, Precision.INT8: 1.5e-4}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedProfile, OneGraph):
    """Content of `mini.toml`, and readers of the files beside it."""

    output_bounds = OUTPUT_BOUNDS
    output_unit = "of the voxels"

    spacing: tuple[float, float, float]
    """Spacing of the grid's voxels, mm."""
    cases: tuple[str, ...]
    """In the order of their samples."""
    architecture: Architecture

    @property
    def grid(self) -> Grid:
        """The grid that scans are resampled to."""
        return Grid(spacing=self.spacing, window=self.architecture.window)

    def dataset(self) -> PreparedCases:
        """Open the validation scans."""
        return PreparedCases(self.files.unpacked(VALIDATION), self.cases, self.grid)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the shipped weights or random ones."""
        if weights is Weights.RANDOM:
            return random_segmenter(self.architecture, self.calibration_inputs)
        return build_segmenter(
            self.architecture,
            self.files.path / WEIGHTS,
            self.calibration_inputs,
            sha256=self.files.sha256[WEIGHTS],
        )

    def on_device(self) -> DeviceForm:
        """Return the form that keeps volumes on the device."""
        return DeviceForm(self)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield windows of scans that serve neither training nor validation."""
        folder = self.files.unpacked(CALIBRATION)
        return calibration_inputs(folder / CALIBRATION_LIST, folder, self.grid, tensor=IMAGE)
