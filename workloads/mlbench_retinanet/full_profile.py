"""The full profile: OpenImages' validation subset and one of three official weights files, from the user's paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import BatchProgram, Dim, Graph, TensorSpec, UsageError, Weights
from mlbench.toolkit import OneGraph, OnnxFileGraph, UserFilesProfile, check_files
from mlbench_retinanet.dataset import PreparedImages, calibration_inputs, open_images, random_images
from mlbench_retinanet.detection import Detections, Selection
from mlbench_retinanet.device_form import DeviceForm
from mlbench_retinanet.graphs import IMAGE, Architecture, build_detector, random_detector
from mlbench_retinanet.program import WholeDetection, detection

if TYPE_CHECKING:
    import torch

    from mlbench_retinanet.workload import RetinaNetOptions

ARCHITECTURE = Architecture(
    planes=64,
    blocks=(3, 4, 6, 3),
    groups=32,
    width_per_group=4,
    channels=256,
    classes=264,
    image_size=800,
    anchor_bases=(32, 64, 128, 256, 512),
)

SELECTION = Selection(lowest_score=0.05, per_level=1000, largest_overlap=0.5, at_most=300)

TORCHSCRIPT, TRAINING, ONNX = ".pth", ".zip", ".onnx"
"""What the names of the three official files end with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files."""

    architecture: Architecture
    selection: Selection
    torchscript_md5: str
    """resnext50_32x4d_fpn.pth, zenodo record 6617981."""
    training_md5: str
    """retinanet_model_10.zip, zenodo record 6605272."""
    onnx_md5: str
    """resnext50_32x4d_fpn.onnx, zenodo record 6617879."""

    def weights_md5(self, kind: str) -> str:
        """Return the checksum of the weights file whose name ends so."""
        return {TORCHSCRIPT: self.torchscript_md5, TRAINING: self.training_md5, ONNX: self.onnx_md5}[kind]


OFFICIAL = OfficialFiles(
    architecture=ARCHITECTURE,
    selection=SELECTION,
    torchscript_md5="a55f6bec3464f605ce8d686da8ac1533",
    training_md5="2037c152a6be18e371ebec654314f7e0",
    onnx_md5="4544f4e56e0a4684215831cc937ea45c",
)


@dataclass(frozen=True, slots=True)
class FullProfile(UserFilesProfile[OfficialFiles], OneGraph):
    """The official model over the files that the options name."""

    official = OFFICIAL

    options: RetinaNetOptions
    weights: Weights

    def check(self) -> None:
        """Raise `UsageError` for a path that is missing or not used."""
        options = self.options
        if (options.calibration is None) != (options.calibration_data is None):
            missing = "calibration_data" if options.calibration else "calibration"
            raise UsageError(
                "retinanet needs both a calibration list and the images that it names.",
                hint=f"Give the other with --set workload.{missing}=PATH.",
            )
        check_files("retinanet", self.weights, options, {"weights": "trained weights", "data": "OpenImages' images"})
        if options.weights and self._kind not in (TORCHSCRIPT, TRAINING, ONNX):
            raise UsageError(
                f"{options.weights} is not one of the official weights files of retinanet.",
                hint="Expected resnext50_32x4d_fpn.pth, resnext50_32x4d_fpn.onnx or retinanet_model_10.zip.",
            )

    def dataset(self) -> PreparedImages:
        """Open OpenImages; without a path, noise in its shape."""
        if self.options.data is None:
            return random_images(ARCHITECTURE.image_hw)
        architecture = self.files.architecture
        return open_images(Path(self.options.data), image_hw=architecture.image_hw, classes=architecture.classes)

    @property
    def program(self) -> BatchProgram:
        """What feeds the graph and reads detections from its outputs."""
        if self._kind == ONNX:
            return WholeDetection(self.files.architecture.image_hw)
        return detection(self.files.architecture, self.files.selection)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the official weights or random ones."""
        if weights is Weights.RANDOM:
            return random_detector(ARCHITECTURE, self.calibration_inputs)
        if self._kind == ONNX:
            return self._onnx_graph()
        files = self.files
        fingerprint = files.weights_md5(self._kind)
        return build_detector(files.architecture, self._read_state, self.calibration_inputs, fingerprint=fingerprint)

    def on_device(self) -> OneGraph:
        """Return the form whose graph ends with candidates; the official ONNX file ends with detections as it is."""
        return self if self._kind == ONNX else DeviceForm(self, self.files.architecture, self.files.selection)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the images of the official calibration list; nothing without one."""
        if self.options.calibration is None or self.options.calibration_data is None:
            return iter(())
        return calibration_inputs(
            Path(self.options.calibration),
            Path(self.options.calibration_data),
            image_hw=self.files.architecture.image_hw,
            tensor=IMAGE,
        )

    @property
    def _kind(self) -> str:
        """How the name of the weights file ends."""
        return Path(self.options.weights).suffix if self.options.weights else ""

    def _read_state(self) -> Mapping[str, torch.Tensor]:
        from mlbench_retinanet.checkpoints import torchscript_state, training_state

        assert self.options.weights is not None
        read = torchscript_state if self._kind == TORCHSCRIPT else training_state
        return read(Path(self.options.weights), md5=self.files.weights_md5(self._kind))

    def _onnx_graph(self) -> Graph:
        """Return the official file, which ends with detections; it takes one image at a time."""
        assert self.options.weights is not None
        files = self.files
        pixels = (1, 3, *files.architecture.image_hw)
        found = Dim(name="detections", smallest=1, usual=100, largest=files.selection.at_most)
        shapes = {"boxes": (found, 4), "scores": (found,), "labels": (found,)}
        dtypes = {"boxes": "float32", "scores": "float32", "labels": "int64"}
        return OnnxFileGraph(
            "detector",
            Path(self.options.weights),
            md5=files.onnx_md5,
            inputs=(TensorSpec(name=IMAGE, shape=pixels, dtype="float32", layout="NCHW"),),
            outputs=tuple(TensorSpec(name=name, shape=shapes[name], dtype=dtypes[name]) for name in Detections._fields),
            calibrate=self.calibration_inputs,
            hint="Give it resnext50_32x4d_fpn.pth.",
        )
