"""The full profile: ImageNet 2012 and one of the two families of official weights, from the user's paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Graph, UsageError, Weights
from mlbench.toolkit import OneGraph, UserFilesProfile, check_files
from mlbench_resnet50.dataset import Prepare, PreparedImages, calibration_inputs, image_folder, random_images
from mlbench_resnet50.device_form import DeviceForm, ImageFiles
from mlbench_resnet50.graphs import (
    IMAGE,
    LOGITS,
    OFFICIAL_ONNX_INPUT,
    OFFICIAL_ONNX_OUTPUT,
    Architecture,
    build_classifier,
    official_onnx_classifier,
    random_classifier,
)
from mlbench_resnet50.preprocessing import SHORTER_SIDE, prepare_for_onnx, prepare_for_torchvision
from mlbench_resnet50.program import Classification, labels_from_classes, labels_from_logits

if TYPE_CHECKING:
    from mlbench_resnet50.workload import ResNet50Options


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files."""

    architecture: Architecture
    shorter_side: int
    """Size of torchvision's resized images, in pixels."""
    torchvision_md5: str
    """resnet50-19c8e357.pth, zenodo record 4588417."""
    onnx_md5: str
    """resnet50_v1.onnx, opset 11, zenodo record 4735647."""


OFFICIAL = OfficialFiles(
    architecture=Architecture(planes=64, classes=1000, image_size=224),
    shorter_side=SHORTER_SIDE,
    torchvision_md5="9e9c86b324d80e65229fab49b8d9a8e8",
    onnx_md5="f6a4da60cd5f084d97efc2c1ddb10beb",
)


@dataclass(frozen=True, slots=True)
class FullProfile(UserFilesProfile[OfficialFiles], OneGraph):
    """The official model over the files that the options name."""

    official = OFFICIAL

    options: ResNet50Options
    weights: Weights

    @property
    def is_onnx(self) -> bool:
        """The family of weights, ONNX or torchvision. Preprocessing and label base follow from it."""
        return self.options.weights is not None and Path(self.options.weights).suffix == ".onnx"

    @property
    def prepare(self) -> Prepare:
        """The family's preprocessing."""
        if self.is_onnx:
            return prepare_for_onnx
        files = self.files
        return partial(prepare_for_torchvision, shorter_side=files.shorter_side, size=files.architecture.image_size)

    @property
    def program(self) -> Classification:
        """The program that feeds the graph and reads labels from its output."""
        if self.is_onnx:
            return Classification(image=OFFICIAL_ONNX_INPUT, output=OFFICIAL_ONNX_OUTPUT, labels=labels_from_classes)
        return Classification(image=IMAGE, output=LOGITS, labels=labels_from_logits)

    def check(self) -> None:
        """Raise `UsageError` for a path that is missing or not used."""
        if self.options.calibration and not self.options.data:
            raise UsageError(
                "resnet50 has a calibration list, but no images.", hint="Give it with --set workload.data=PATH."
            )
        needs = {"weights": "trained weights", "data": "ImageNet's images"}
        check_files("resnet50", self.weights, self.options, needs)

    def dataset(self) -> PreparedImages:
        """Open ImageNet; without a path, noise in its shape."""
        if self.options.data is None:
            return random_images(self.files.architecture.image_size)
        folder, sizes = Path(self.options.data), self.files.architecture
        return image_folder(folder, self.prepare, size=sizes.image_size, classes=sizes.classes)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the official weights or random ones."""
        if weights is Weights.RANDOM:
            return random_classifier(self.files.architecture, self.calibration_inputs)
        assert self.options.weights is not None
        file, files = Path(self.options.weights), self.files
        if self.is_onnx:
            return official_onnx_classifier(file, self.calibration_inputs, md5=files.onnx_md5)
        return build_classifier(files.architecture, file, self.calibration_inputs, md5=files.torchvision_md5)

    def on_device(self) -> OneGraph:
        """Return the form that sends pixels; the official ONNX file takes normalised images as it is."""
        if self.is_onnx:
            return self
        options, sizes = self.options, self.files.architecture
        files = ImageFiles(
            folder=Path(options.data) if options.data else None,
            calibration=Path(options.calibration) if options.calibration else None,
            calibration_folder=Path(options.data) if options.data else None,
            classes=sizes.classes,
            shorter_side=self.files.shorter_side,
            size=sizes.image_size,
        )
        return DeviceForm(self, self.program, files)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the images of the official calibration list; nothing without one."""
        if self.options.calibration is None or self.options.data is None:
            return iter(())
        tensor = OFFICIAL_ONNX_INPUT if self.is_onnx else IMAGE
        return calibration_inputs(Path(self.options.calibration), Path(self.options.data), self.prepare, tensor=tensor)
