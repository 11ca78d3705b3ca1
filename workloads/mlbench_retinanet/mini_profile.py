"""The mini profile: a small RetinaNet and scenes with digits, both shipped; `recipe.py` makes all of it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mlbench import Graph, Precision, Weights
from mlbench.toolkit import OneGraph, ShippedProfile, load_weights
from mlbench_retinanet.dataset import PreparedImages, calibration_inputs, open_images
from mlbench_retinanet.detection import Selection
from mlbench_retinanet.device_form import DeviceForm
from mlbench_retinanet.graphs import IMAGE, Architecture, build_detector, random_detector
from mlbench_retinanet.program import Detection, detection

WEIGHTS, VALIDATION, CALIBRATION = "weights.safetensors", "validation.zip", "calibration.zip"
CALIBRATION_LIST = "calibration.txt"

OUTPUT_BOUNDS = {Precision.FP32: 5e-5, Precision.FP16: 1e-3, Precision.BF16: 7e-3, Precision.INT8: 2.5e-2}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedProfile, OneGraph):
    """Content of `mini.toml`, and readers of the files beside it."""

    output_bounds = OUTPUT_BOUNDS
    output_unit = "in a class's sum of scores"

    architecture: Architecture
    selection: Selection

    def dataset(self) -> PreparedImages:
        """Open the validation scenes."""
        folder = self.files.unpacked(VALIDATION)
        return open_images(folder, image_hw=self.architecture.image_hw, classes=self.architecture.classes)

    @property
    def program(self) -> Detection:
        """What feeds the graph and reads detections from its outputs."""
        return detection(self.architecture, self.selection)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the shipped weights or random ones."""
        if weights is Weights.RANDOM:
            return random_detector(self.architecture, self.calibration_inputs)
        return build_detector(
            self.architecture,
            lambda: load_weights(self.files.file(WEIGHTS)),
            self.calibration_inputs,
            fingerprint=self.files.sha256[WEIGHTS],
        )

    def on_device(self) -> DeviceForm:
        """Return the form whose graph ends with candidates."""
        return DeviceForm(self, self.architecture, self.selection)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield scenes drawn from training digits, never from validation ones."""
        folder = self.files.unpacked(CALIBRATION)
        image_hw = self.architecture.image_hw
        return calibration_inputs(folder / CALIBRATION_LIST, folder, image_hw=image_hw, tensor=IMAGE)
