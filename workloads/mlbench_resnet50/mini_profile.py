"""The mini profile: a small ResNet-50 and drawn digits, both shipped; `recipe.py` makes all of it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mlbench import Graph, Precision, Weights
from mlbench.toolkit import OneGraph, ShippedProfile
from mlbench_resnet50.dataset import PreparedImages, calibration_inputs, image_folder
from mlbench_resnet50.device_form import DeviceForm, ImageFiles
from mlbench_resnet50.graphs import IMAGE, LOGITS, Architecture, build_classifier, random_classifier
from mlbench_resnet50.preprocessing import prepare_for_torchvision
from mlbench_resnet50.program import Classification, labels_from_logits

WEIGHTS = "weights.safetensors"
VALIDATION = "validation.zip"
CALIBRATION = "calibration.zip"
FILES = (WEIGHTS, VALIDATION, CALIBRATION)

CALIBRATION_LIST = "calibration.txt"

OUTPUT_BOUNDS = {Precision.FP32: 2.1e-3, Precision.FP16: 2.1e-3, Precision.BF16: 2.1e-3, Precision.INT8: 6.1e-3}
"""Bounds of the difference from the fp32 model's outputs; README.md has measurements of honest and damaged runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedProfile, OneGraph):
    """Content of `mini.toml`, and readers of the files beside it."""

    output_bounds = OUTPUT_BOUNDS
    output_unit = "of the labels"

    planes: int
    classes: int
    stored_size: int
    """Pixels along each side of the images on disk."""
    image_size: int
    """Pixels along each side of their middle, which the network sees."""

    @property
    def architecture(self) -> Architecture:
        """The network's dimensions."""
        return Architecture(planes=self.planes, classes=self.classes, image_size=self.image_size)

    @property
    def program(self) -> Classification:
        """The program that feeds the graph and reads labels from its output."""
        return Classification(image=IMAGE, output=LOGITS, labels=labels_from_logits)

    def dataset(self) -> PreparedImages:
        """Open the validation images."""
        folder = self.files.unpacked(VALIDATION)
        return image_folder(folder, self.prepare, size=self.image_size, classes=self.classes)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the shipped weights or random ones."""
        if weights is Weights.RANDOM:
            return random_classifier(self.architecture, self.calibration_inputs)
        return build_classifier(
            self.architecture,
            self.files.path / WEIGHTS,
            self.calibration_inputs,
            sha256=self.files.sha256[WEIGHTS],
        )

    def on_device(self) -> DeviceForm:
        """Return the form that sends pixels."""
        calibration = self.files.unpacked(CALIBRATION)
        files = ImageFiles(
            folder=self.files.unpacked(VALIDATION),
            calibration=calibration / CALIBRATION_LIST,
            calibration_folder=calibration,
            classes=self.classes,
            shorter_side=self.stored_size,
            size=self.image_size,
        )
        return DeviceForm(self, self.program, files)

    def prepare(self, image: np.ndarray) -> np.ndarray:
        """Prepare an image by torchvision's recipe; as the images are stored small, nothing is left to resize."""
        return prepare_for_torchvision(image, self.stored_size, self.image_size)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield images drawn from training sources, never from validation ones."""
        folder = self.files.unpacked(CALIBRATION)
        return calibration_inputs(folder / CALIBRATION_LIST, folder, self.prepare, tensor=IMAGE)
