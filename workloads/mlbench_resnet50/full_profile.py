"""The full profile: ImageNet 2012 and one of the two families of official weights, from the user's paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Graph, UsageError, Weights
from mlbench_resnet50.accuracy import REFERENCE_TOP1
from mlbench_resnet50.dataset import Prepare, PreparedImages, calibration_inputs, image_folder, random_images
from mlbench_resnet50.graphs import (
    OFFICIAL_ONNX_INPUT,
    Architecture,
    build_classifier,
    official_onnx_classifier,
    random_classifier,
)
from mlbench_resnet50.preprocessing import prepare_for_onnx, prepare_for_torchvision
from mlbench_resnet50.program import LabelReader, labels_from_classes, labels_from_logits

if TYPE_CHECKING:
    from mlbench_resnet50.workload import ResNet50Options

TORCHVISION_MD5 = "9e9c86b324d80e65229fab49b8d9a8e8"
"""resnet50-19c8e357.pth, zenodo record 4588417."""

ONNX_MD5 = "f6a4da60cd5f084d97efc2c1ddb10beb"
"""resnet50_v1.onnx, opset 11, zenodo record 4735647."""

ARCHITECTURE = Architecture(planes=64, classes=1000, image_size=224)


@dataclass(frozen=True, slots=True)
class FullProfile:
    """The official model over the files that the options name."""

    options: ResNet50Options

    @property
    def reference_top1(self) -> float:
        """Percent; the same for either family."""
        return REFERENCE_TOP1

    @property
    def is_onnx(self) -> bool:
        """Tell which family of weights is meant: ONNX or torchvision. Preprocessing and label base follow from it."""
        return self.options.weights is not None and Path(self.options.weights).suffix == ".onnx"

    @property
    def prepare(self) -> Prepare:
        """The family's preprocessing."""
        return prepare_for_onnx if self.is_onnx else prepare_for_torchvision

    @property
    def labels(self) -> LabelReader:
        """How labels are read from the graph's output."""
        return labels_from_classes if self.is_onnx else labels_from_logits

    def check(self, weights: Weights) -> None:
        """Raise `UsageError` for a path that is missing or would not be read."""
        if self.options.calibration and not self.options.data:
            raise UsageError(
                "resnet50 has a calibration list, but no images.", hint="Give it with --set workload.data=PATH."
            )
        if weights is Weights.RANDOM and self.options.weights:
            raise UsageError("random weights do not come from a file.", hint="Leave out workload.weights.")
        if weights is Weights.TRAINED and not self.options.weights:
            raise UsageError(
                "the full profile of resnet50 needs trained weights.", hint="Give it with --set workload.weights=PATH."
            )
        if weights is Weights.TRAINED and not self.options.data:
            raise UsageError(
                "the full profile of resnet50 needs ImageNet's images.", hint="Give it with --set workload.data=PATH."
            )

    def dataset(self) -> PreparedImages:
        """Open ImageNet; without a path, noise in its shape."""
        if self.options.data is None:
            return random_images(ARCHITECTURE.image_size)
        folder = Path(self.options.data)
        return image_folder(folder, self.prepare, size=ARCHITECTURE.image_size, classes=ARCHITECTURE.classes)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the official weights or random ones."""
        if weights is Weights.RANDOM:
            return random_classifier(ARCHITECTURE, self.calibration_inputs)
        assert self.options.weights is not None
        file = Path(self.options.weights)
        if self.is_onnx:
            return official_onnx_classifier(file, self.calibration_inputs, md5=ONNX_MD5)
        return build_classifier(ARCHITECTURE, file, self.calibration_inputs, md5=TORCHVISION_MD5)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the images of the official calibration list; nothing without one."""
        if self.options.calibration is None or self.options.data is None:
            return iter(())
        tensor = OFFICIAL_ONNX_INPUT if self.is_onnx else "image"
        return calibration_inputs(Path(self.options.calibration), Path(self.options.data), self.prepare, tensor=tensor)
