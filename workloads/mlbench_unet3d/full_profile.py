"""The full profile: KiTS19 and one of four official weights files, from the user's paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Dataset, Graph, UsageError, Weights
from mlbench.toolkit import OneGraph, ProfileParts, UserFilesProfile, check_files
from mlbench_unet3d.dataset import PreparedCases, RandomVolumes, calibration_inputs
from mlbench_unet3d.device_form import DeviceForm
from mlbench_unet3d.graphs import (
    IMAGE,
    ONNX_IMAGE,
    Architecture,
    build_segmenter,
    dynamic_onnx_segmenter,
    load_onnx_segmenter,
    random_segmenter,
)
from mlbench_unet3d.kits19 import CASES
from mlbench_unet3d.preprocessing import Grid

if TYPE_CHECKING:
    from mlbench_unet3d.workload import UNet3DOptions

TORCHSCRIPT, CHECKPOINT, ONNX = ".ptc", ".pth", ".onnx"
"""Ends of the names of the official files."""

TORCHSCRIPT_MD5 = "2251109371f408c9f10a4320ffdcaef8"
"""3dunet_kits19_pytorch.ptc, zenodo record 5597155. It can hold code: no smaller set brings its own."""

DYNAMIC = "dynbatch"
"""What the name of the ONNX file for several windows has, and the other has not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files."""

    architecture: Architecture
    grid: Grid
    cases: tuple[str, ...]
    """In the order of their samples."""
    checkpoint_md5: str
    """3dunet_kits19_pytorch_checkpoint.pth, zenodo record 5597155."""
    dynamic_onnx_md5: str
    """3dunet_kits19_128x128x128_dynbatch.onnx, same record. Of its sibling for one window no checksum is published."""


OFFICIAL = OfficialFiles(
    architecture=Architecture(),
    grid=Grid(),
    cases=CASES,
    checkpoint_md5="09c696e3ec13d83c628498bcd831eb5b",
    dynamic_onnx_md5="82f0618fde78f9839e7c712274019b4a",
)


@dataclass(frozen=True, slots=True)
class FullProfile(UserFilesProfile[OfficialFiles], OneGraph):
    """The official model over the files that the options name."""

    official = OFFICIAL

    options: UNet3DOptions
    weights: Weights

    def check(self) -> None:
        """Raise `UsageError` for a path that is missing or not used."""
        options = self.options
        if options.calibration and not options.data:
            raise UsageError(
                "3d-unet has a calibration list, but no scans.", hint="Give them with --set workload.data=PATH."
            )
        check_files("3d-unet", self.weights, options, {"weights": "trained weights", "data": "KiTS19's scans"})
        if options.weights and Path(options.weights).suffix not in (TORCHSCRIPT, CHECKPOINT, ONNX):
            raise UsageError(
                f"{options.weights} is not one of the official weights files of 3d-unet.",
                hint="Expected a .ptc, .pth or .onnx file of zenodo record 5597155.",
            )

    def dataset(self) -> Dataset:
        """Open KiTS19; without a path, noise in volumes of like shapes."""
        if self.options.data is None:
            return RandomVolumes()
        files = self.files
        return PreparedCases(Path(self.options.data), files.cases, files.grid)

    def graph(self, weights: Weights) -> Graph:
        """Return the network, with the official weights or random ones."""
        if weights is Weights.RANDOM:
            return random_segmenter(Architecture(), self.calibration_inputs)
        assert self.options.weights is not None
        file, files = Path(self.options.weights), self.files
        if file.suffix != ONNX:
            md5 = TORCHSCRIPT_MD5 if file.suffix == TORCHSCRIPT else files.checkpoint_md5
            return build_segmenter(files.architecture, file, self.calibration_inputs, md5=md5)
        if DYNAMIC in file.name:
            return dynamic_onnx_segmenter(file, self.calibration_inputs, md5=files.dynamic_onnx_md5)
        return load_onnx_segmenter(file, self.calibration_inputs)

    def on_device(self) -> ProfileParts:
        """Return the form that keeps volumes on the device; an ONNX file runs as it is."""
        return self if self._is_onnx else DeviceForm(self)

    def calibration_inputs(self) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield windows of the cases in the official calibration list; nothing without one."""
        if self.options.calibration is None or self.options.data is None:
            return iter(())
        scans, tensor = Path(self.options.data), ONNX_IMAGE if self._is_onnx else IMAGE
        return calibration_inputs(Path(self.options.calibration), scans, self.files.grid, tensor=tensor)

    @property
    def _is_onnx(self) -> bool:
        return self.options.weights is not None and Path(self.options.weights).suffix == ONNX
