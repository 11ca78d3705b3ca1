"""The workload 3D-UNet: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_unet3d.full_profile import FullProfile
    from mlbench_unet3d.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class UNet3DOptions:
    """The official files of the full profile, and how the network is called in either profile."""

    data: Path | None = None
    """KiTS19: folder with case_00000/imaging.nii.gz, case_00000/segmentation.nii.gz and so on."""
    weights: Path | None = None
    """3dunet_kits19_pytorch.ptc, 3dunet_kits19_pytorch_checkpoint.pth, or one of the two ONNX files."""
    calibration: Path | None = None
    """The official list of 20 training cases; without it nothing can be quantised."""
    windows_per_call: int = 2
    """How many windows the network is given at a time; never more than its weights file allows."""


class UNet3D(Workload):
    """3D-UNet on KiTS19, and a small copy of it on drawn abdomens."""

    name = "3d-unet"
    title = "3D-UNet, kidney tumour segmentation, KiTS19"
    rules = "3d-unet"
    options = UNet3DOptions()
    tuning = Path(__file__).parent / "tuning.toml"

    def dataset(self, variant: Variant) -> Dataset:
        """Open the prepared cases; a sample is (D, H, W) float32."""
        return _profile(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graph ``segmenter`` and the program that slides its window over volumes."""
        from mlbench import Model
        from mlbench_unet3d.program import segmentation

        graph = _profile(variant).graph(variant.weights)
        return Model(
            name=self.name,
            graphs={graph.name: graph},
            program=segmentation(graph, windows_per_call=variant.options.windows_per_call),
            weights_fingerprint=graph.fingerprint,
        )

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return DICE over the labels of ``dataset``, which this workload opened."""
        from mlbench_unet3d.accuracy import Dice
        from mlbench_unet3d.dataset import PreparedCases
        from mlbench_unet3d.mini_profile import load_mini_profile

        if variant.weights is Weights.RANDOM:
            return None
        assert isinstance(dataset, PreparedCases)
        metric = Dice(dataset.label, dataset.count, reference=_profile(variant).reference_dice)
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _profile(variant: Variant) -> MiniProfile | FullProfile:
    """Return what the variant is made of; raise `UsageError` for options that are missing or would not be read."""
    options: UNet3DOptions = variant.options
    if options.windows_per_call < 1:
        raise UsageError(f"workload.windows_per_call is {options.windows_per_call}.", hint="Must be at least 1.")
    if variant.profile is Profile.FULL:
        from mlbench_unet3d.full_profile import FullProfile

        full = FullProfile(options)
        full.check(variant.weights)
        return full
    from mlbench_unet3d.mini_profile import load_mini_profile

    if options != replace(UNet3DOptions(), windows_per_call=options.windows_per_call):
        raise UsageError(
            "the mini profile of 3d-unet ships its files and takes no paths.", hint="Use the full profile."
        )
    return load_mini_profile()
