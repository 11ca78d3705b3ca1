"""The workload ResNet-50: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import Metric, Target
    from mlbench.toolkit import ProfileParts
    from mlbench_resnet50.dataset import PreparedImages


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet50Options:
    """The official files of the full profile."""

    data: Path | None = None
    """Folder with ILSVRC2012_val_00000001.JPEG ... 00050000.JPEG and val_map.txt."""
    weights: Path | None = None
    """resnet50-19c8e357.pth (torchvision) or resnet50_v1.onnx (opset 11); each has its own preprocessing."""
    calibration: Path | None = None
    """One of the two official lists of 500 validation images; needed for quantisation."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""


class ResNet50(ProfiledWorkload):
    """ResNet-50 v1.5 on ImageNet 2012, and a small copy of it on drawn digits."""

    name = "resnet50"
    title = "ResNet-50 v1.5, image classification, ImageNet 2012"
    rules = "resnet50"
    options = ResNet50Options()
    full_weights = 25_557_032
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload = ("torch._dynamo", "torchvision.models.resnet")
    preload_always = ("mlbench_resnet50.mini_profile",)
    mini_server_latency_ms = 100
    """Long enough to tell a slow backend from a pause of a shared processor, which lasts tens of milliseconds."""

    def build_metric(
        self, variant: Variant, profile: ProfileParts, dataset: PreparedImages, targets: tuple[Target, ...]
    ) -> Metric:
        """Return top-1 accuracy over the labels of the images."""
        from mlbench_resnet50.accuracy import Top1

        return Top1(dataset.labels, targets)
