"""The mini profile: a small RetinaNet and scenes with digits, both shipped; `recipe.py` makes all of it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from mlbench import Graph, OutputReference, Precision, Weights
from mlbench.toolkit import MiniFolder, load_weights, read_mini, read_output_reference
from mlbench_retinanet.dataset import PreparedImages, calibration_inputs, open_images
from mlbench_retinanet.detection import Selection
from mlbench_retinanet.graphs import IMAGE, Architecture, build_detector, random_detector
from mlbench_retinanet.program import Detection, detection

WEIGHTS, VALIDATION, CALIBRATION = "weights.safetensors", "validation.zip", "calibration.zip"
CALIBRATION_LIST = "calibration.txt"

OUTPUT_BOUNDS = {Precision.FP32: 5e-5, Precision.FP16: 1e-3, Precision.BF16: 7e-3, Precision.INT8: 2.5e-2}
"""How far outputs may be from the fp32 model's; README.md has what honest and damaged runs give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile:
    """What `mini.toml` says, and how the files beside it are read."""

    files: MiniFolder
    reference_map: float
    """Percent, measured by the recipe with the shipped weights in torch fp32."""
    architecture: Architecture
    selection: Selection

    def output_reference(self) -> OutputReference | None:
        """Return the fp32 model's outputs, and how far honest runs are from them."""
        return read_output_reference(self.files, bounds=OUTPUT_BOUNDS, unit="in a class's sum of scores")

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

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield scenes drawn from training digits, never from validation ones."""
        folder = self.files.unpacked(CALIBRATION)
        image_hw = self.architecture.image_hw
        return calibration_inputs(folder / CALIBRATION_LIST, folder, image_hw=image_hw, tensor=IMAGE)


def read_mini_profile(folder: Path) -> MiniProfile:
    """Read `mini.toml` in a folder that the recipe wrote."""
    return read_mini(MiniProfile, folder)


@cache
def load_mini_profile() -> MiniProfile:
    """Return the mini profile of this package."""
    return read_mini_profile(Path(__file__).parent / "mini")
