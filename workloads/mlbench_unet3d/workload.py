"""The workload 3D-UNet: its options, and which parts make up each variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from mlbench import Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import BatchProgram, Graph, Metric, Target
    from mlbench.toolkit import ProfileParts
    from mlbench_unet3d.dataset import PreparedCases


@dataclass(frozen=True, slots=True, kw_only=True)
class UNet3DOptions:
    """Paths of the official files of the full profile, and calls of the network in either profile."""

    data: Path | None = None
    """KiTS19: folder with case_00000/imaging.nii.gz, case_00000/segmentation.nii.gz and so on."""
    weights: Path | None = None
    """3dunet_kits19_pytorch.ptc, 3dunet_kits19_pytorch_checkpoint.pth, or one of the two ONNX files."""
    calibration: Path | None = None
    """The official list of 20 training cases; needed for quantisation."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""
    windows_per_call: Annotated[int, Ge(1)] = 2
    """Number of windows in a call of the network; limited by its weights file."""


class UNet3D(ProfiledWorkload):
    """3D-UNet on KiTS19, and a small copy of it on drawn abdomens."""

    name = "3d-unet"
    title = "3D-UNet, kidney tumour segmentation, KiTS19"
    rules = "3d-unet"
    options = UNet3DOptions()
    mini_options = ("windows_per_call",)
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"

    def build_program(self, variant: Variant, profile: ProfileParts, graphs: Mapping[str, Graph]) -> BatchProgram:
        """Return the program that slides its window over volumes, so many windows in a call as the options say."""
        from mlbench_unet3d.device_form import segmentation_in_state
        from mlbench_unet3d.program import segmentation

        segmenter = graphs["segmenter"]
        build = segmentation_in_state if segmenter.state else segmentation
        return build(segmenter, windows_per_call=variant.options.windows_per_call)

    def build_metric(
        self, variant: Variant, profile: ProfileParts, dataset: PreparedCases, targets: tuple[Target, ...]
    ) -> Metric:
        """Return DICE over the labels of the cases."""
        from mlbench_unet3d.accuracy import Dice

        return Dice(dataset.label, dataset.count, targets)
