"""The workload ResNet-50: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_resnet50.full_profile import FullProfile
    from mlbench_resnet50.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class ResNet50Options:
    """The official files of the full profile."""

    data: Path | None = None
    """Folder with ILSVRC2012_val_00000001.JPEG ... 00050000.JPEG and val_map.txt."""
    weights: Path | None = None
    """resnet50-19c8e357.pth (torchvision) or resnet50_v1.onnx (opset 11); each has its own preprocessing."""
    calibration: Path | None = None
    """One of the two official lists of 500 validation images; without it nothing can be quantised."""


class ResNet50(Workload):
    """ResNet-50 v1.5 on ImageNet 2012, and a small copy of it on drawn digits."""

    name = "resnet50"
    title = "ResNet-50 v1.5, image classification, ImageNet 2012"
    rules = "resnet50"
    options = ResNet50Options()
    tuning = Path(__file__).parent / "tuning.toml"
    mini_server_latency_ms = 100
    """A shared processor pauses for tens of milliseconds; this tells a slow backend from a hiccup."""

    def dataset(self, variant: Variant) -> Dataset:
        """Open the images; a sample is (3, size, size) float32, ready for the network."""
        return _profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graph ``classifier`` and the program that reads labels from it."""
        from mlbench import Model
        from mlbench_resnet50.program import Classification

        profile = _profile(variant)
        graph = profile.graph(variant.weights)
        image, output = graph.inputs[0].name, graph.outputs[0].name
        return Model(
            name=self.name,
            graphs={graph.name: graph},
            program=Classification(image=image, output=output, labels=profile.labels),
            weights_fingerprint=graph.fingerprint,
        )

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return top-1 accuracy over the labels of ``dataset``, which this workload opened."""
        from mlbench_resnet50.accuracy import Top1
        from mlbench_resnet50.dataset import PreparedImages
        from mlbench_resnet50.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, PreparedImages)
        metric = Top1(dataset.labels, reference=_profile(variant).reference_top1)
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    if variant.profile is Profile.FULL:
        from mlbench_resnet50.full_profile import FullProfile

        full = FullProfile(variant.options)
        full.check(variant.weights)
        return full
    from mlbench_resnet50.mini_profile import load_mini_profile

    if variant.options != ResNet50Options():
        raise UsageError(
            "the mini profile of resnet50 ships its files and takes no paths.", hint="Use the full profile."
        )
    return load_mini_profile()
