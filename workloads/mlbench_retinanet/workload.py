"""The workload RetinaNet: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_retinanet.full_profile import FullProfile
    from mlbench_retinanet.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class RetinaNetOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """Folder with annotations/openimages-mlperf.json and the images, beside each other or in validation/data."""
    weights: Path | None = None
    """resnext50_32x4d_fpn.pth, resnext50_32x4d_fpn.onnx or retinanet_model_10.zip."""
    calibration: Path | None = None
    """The official list of 500 training images; without it nothing can be quantised."""
    calibration_data: Path | None = None
    """Folder with the images of that list, beside each other or in train/data."""


class RetinaNet(Workload):
    """RetinaNet with a ResNeXt-50 body on OpenImages, and a small copy of it on drawn scenes."""

    name = "retinanet"
    title = "RetinaNet ResNeXt-50, object detection, OpenImages"
    rules = "retinanet"
    options = RetinaNetOptions()
    tuning = Path(__file__).parent / "tuning.toml"
    mini_server_latency_ms = 300
    """A shared processor pauses for tens of milliseconds; this tells a slow backend from a hiccup."""

    def dataset(self, variant: Variant) -> Dataset:
        """Open the images; a sample is its index and (3, size, size) float32, ready for the network."""
        return _profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graph ``detector`` and the program that reads detections from it."""
        from mlbench import Model

        profile = _profile(variant)
        graph = profile.graph(variant.weights)
        return Model(
            name=self.name,
            graphs={graph.name: graph},
            program=profile.program,
            weights_fingerprint=graph.fingerprint,
        )

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return mean average precision over the annotations of ``dataset``, which this workload opened."""
        from mlbench_retinanet.accuracy import MeanAveragePrecision
        from mlbench_retinanet.dataset import PreparedImages
        from mlbench_retinanet.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, PreparedImages)
        assert dataset.annotations is not None  # only noise has none, and it goes with random weights
        metric = MeanAveragePrecision(dataset.annotations, reference=_profile(variant).reference_map)
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    if variant.profile is Profile.FULL:
        from mlbench_retinanet.full_profile import FullProfile

        full = FullProfile(variant.options)
        full.check(variant.weights)
        return full
    from mlbench_retinanet.mini_profile import load_mini_profile

    if variant.options != RetinaNetOptions():
        raise UsageError(
            "the mini profile of retinanet ships its files and takes no paths.", hint="Use the full profile."
        )
    return load_mini_profile()
