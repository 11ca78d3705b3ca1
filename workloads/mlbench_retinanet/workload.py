"""The workload RetinaNet: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric, Target
    from mlbench.toolkit import ProfileParts
    from mlbench_retinanet.dataset import PreparedImages


@dataclass(frozen=True, slots=True, kw_only=True)
class RetinaNetOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """Folder with annotations/openimages-mlperf.json and the images, beside each other or in validation/data."""
    weights: Path | None = None
    """resnext50_32x4d_fpn.pth, resnext50_32x4d_fpn.onnx or retinanet_model_10.zip."""
    calibration: Path | None = None
    """The official list of 500 training images; needed for quantisation."""
    calibration_data: Path | None = None
    """Folder with the images of that list, beside each other or in train/data."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""


class RetinaNet(ProfiledWorkload):
    """RetinaNet with a ResNeXt-50 body on OpenImages, and a small copy of it on drawn scenes."""

    name = "retinanet"
    title = "RetinaNet ResNeXt-50, object detection, OpenImages"
    rules = "retinanet"
    options = RetinaNetOptions()
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload_always = ("torch", "torch._dynamo", "torchvision.models.detection.anchor_utils")
    mini_server_latency_ms = 300
    """Long enough to tell a slow backend from a pause of a shared processor, which lasts tens of milliseconds."""

    def build_metric(
        self, variant: Variant, profile: ProfileParts, dataset: PreparedImages, targets: tuple[Target, ...]
    ) -> Metric:
        """Return mean average precision over the annotations of the images."""
        from mlbench_retinanet.accuracy import MeanAveragePrecision

        assert dataset.annotations is not None  # only noise has none, and it goes with random weights
        return MeanAveragePrecision(dataset.annotations, targets)
