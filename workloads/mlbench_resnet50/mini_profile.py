"""The mini profile: a small ResNet-50 and drawn digits, both shipped; `recipe.py` makes all of it again."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from mlbench import Graph, Weights
from mlbench.toolkit import unpacked
from mlbench_resnet50.dataset import PreparedImages, calibration_inputs, image_folder
from mlbench_resnet50.graphs import Architecture, random_classifier, trained_classifier
from mlbench_resnet50.preprocessing import prepare_for_torchvision
from mlbench_resnet50.program import LabelReader, labels_from_logits

CALIBRATION_LIST = "calibration.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile:
    """A folder that the recipe wrote: what its `mini.toml` says, and how the files beside it are read."""

    folder: Path
    planes: int
    classes: int
    stored_size: int
    """Pixels along each side of the images on disk."""
    image_size: int
    """Pixels of their middle that the network sees."""
    reference_top1: float
    """Percent, measured by the recipe with the shipped weights in torch fp32."""
    weights_sha256: str
    validation_sha256: str
    calibration_sha256: str

    @property
    def architecture(self) -> Architecture:
        """The network's dimensions."""
        return Architecture(planes=self.planes, classes=self.classes, image_size=self.image_size)

    @property
    def labels(self) -> LabelReader:
        """How labels are read from the graph's output."""
        return labels_from_logits

    def dataset(self) -> PreparedImages:
        """Open the validation images."""
        folder = unpacked(self.folder / "validation.zip", sha256=self.validation_sha256)
        return image_folder(folder, self.prepare, size=self.image_size, classes=self.classes)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the shipped weights or random ones."""
        if weights is Weights.RANDOM:
            return random_classifier(self.architecture, self.calibration_inputs)
        file = self.folder / "weights.safetensors"
        return trained_classifier(self.architecture, file, self.calibration_inputs, sha256=self.weights_sha256)

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """Prepare an image by torchvision's recipe; as the images are stored small, nothing is left to resize."""
        return prepare_for_torchvision(image, self.stored_size, self.image_size)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield images drawn from training sources, never from validation ones."""
        folder = unpacked(self.folder / "calibration.zip", sha256=self.calibration_sha256)
        return calibration_inputs(folder / CALIBRATION_LIST, folder, self.prepare, tensor="image")


def read_mini_profile(folder: Path) -> MiniProfile:
    """Read `mini.toml` in a folder that the recipe wrote."""
    return MiniProfile(folder=folder, **tomllib.loads((folder / "mini.toml").read_text(encoding="utf-8")))


@cache
def shipped_profile() -> MiniProfile:
    """Return the mini profile of this package."""
    return read_mini_profile(Path(__file__).parent / "mini")
