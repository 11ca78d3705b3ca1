"""The form for a backend with memory of its own: pixels travel as uint8, and the network normalises them.

A quarter of the bytes go to the device, and the network sees the same values: both forms divide and subtract in fp32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Graph, TensorSpec, Weights
from mlbench.toolkit import ModuleGraph, OneGraph
from mlbench_resnet50.dataset import PreparedImages, calibration_inputs, image_folder, random_pixels
from mlbench_resnet50.graphs import BATCH, IMAGE
from mlbench_resnet50.preprocessing import TORCHVISION_MEAN, TORCHVISION_STD, pixels_for_torchvision
from mlbench_resnet50.program import Classification

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFiles:
    """The files of a profile that torchvision's recipe prepares."""

    folder: Path | None
    """The validation images'; None: noise."""
    calibration: Path | None
    """A list of images for quantisation."""
    calibration_folder: Path | None
    classes: int
    shorter_side: int
    """The resized images', in pixels."""
    size: int
    """Pixels along each side of what the network sees."""

    @property
    def pixels(self) -> Callable[[np.ndarray], np.ndarray]:
        """The recipe without normalising."""
        return partial(pixels_for_torchvision, shorter_side=self.shorter_side, size=self.size)


class DeviceForm(OneGraph):
    """A profile's data as pixels, and its network behind the normalisation."""

    def __init__(self, profile: OneGraph, program: Classification, files: ImageFiles) -> None:
        """Store the profile, its program, and its files."""
        self._profile = profile
        self._files = files
        self.program = program

    def dataset(self) -> PreparedImages:
        """Open the profile's images as pixels."""
        files = self._files
        if files.folder is None:
            return random_pixels(files.size)
        return image_folder(files.folder, files.pixels, size=files.size, classes=files.classes, dtype="uint8")

    def graph(self, weights: Weights) -> Graph:
        """Return ``image`` (B, 3, size, size) uint8 -> the outputs of the profile's network."""
        whole, size = self._profile.graph(weights), self._files.size
        return ModuleGraph(
            whole.name,
            inputs=(TensorSpec(name=IMAGE, shape=(BATCH, 3, size, size), dtype="uint8", layout="NCHW"),),
            outputs=whole.outputs,
            build=lambda: _behind_pixels(whole.module()),
            fingerprint=f"{whole.fingerprint}-pixels",
            calibrate=self._calibration_inputs,
        )

    def _calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        files = self._files
        if files.calibration is None or files.calibration_folder is None:
            return iter(())
        return calibration_inputs(files.calibration, files.calibration_folder, files.pixels, tensor=IMAGE)


def _behind_pixels(network: torch.nn.Module) -> torch.nn.Module:
    """Return a network that takes pixels from 0 to 255 and normalises them in fp32, whatever it computes in itself."""
    import torch

    class Normalised(torch.nn.Module):
        mean: torch.Tensor
        std: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.network = network
            for name, values in (("mean", TORCHVISION_MEAN), ("std", TORCHVISION_STD)):
                self.register_buffer(name, torch.from_numpy(values).view(3, 1, 1), persistent=False)

        def forward(self, image: torch.Tensor) -> torch.Tensor:
            normalised: torch.Tensor = self.network((image.float() / 255 - self.mean) / self.std)
            return normalised

    return Normalised()
