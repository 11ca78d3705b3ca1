"""The workload Stable Diffusion XL: its options, and which parts make up each variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Profile, UsageError, Variant, Weights, Workload

if TYPE_CHECKING:
    from mlbench import Dataset, Metric, Model
    from mlbench_stable_diffusion_xl.full_profile import FullProfile
    from mlbench_stable_diffusion_xl.mini_profile import MiniProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class StableDiffusionXLOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """captions_source.tsv, or COCO's own captions_val2014.json to select from."""
    weights: Path | None = None
    """The folder of the diffusers pipeline, or MLCommons' archive unpacked."""
    latents: Path | None = None
    """latents.npy or latents.pt; without it they are drawn anew, which differs by 2.4e-7 at most."""
    statistics: Path | None = None
    """val2014.npz: what FID compares with."""
    inception: Path | None = None
    """pt_inception-2015-12-05-6726825d.pth: the network that FID looks through."""
    clip: Path | None = None
    """Weights of OpenAI's ViT-B/32, open_clip_model.safetensors or ViT-B-32.pt."""


class StableDiffusionXL(Workload):
    """Stable Diffusion XL on captions of COCO 2014, and a small copy of it that paints digits."""

    name = "stable-diffusion-xl"
    title = "Stable Diffusion XL base, text to image, COCO 2014"
    rules = "stable-diffusion-xl"
    options = StableDiffusionXLOptions()
    tuning = Path(__file__).parent / "tuning.toml"

    def dataset(self, variant: Variant) -> Dataset:
        """Open the captions; a sample is the tokens of one for both text encoders, (2, T) int64."""
        if variant.profile is Profile.FULL:
            return _full(variant).dataset(variant.weights)
        return _mini(variant).dataset()

    def model(self, variant: Variant) -> Model:
        """Return the graphs of text encoders, denoiser and decoder, and the program that loops over steps."""
        import hashlib

        from mlbench import Model

        if variant.profile is Profile.FULL:
            full = _full(variant)
            graphs, program = full.graphs(variant.weights), full.program(variant.weights)
        else:
            mini = _mini(variant)
            graphs, program = mini.graphs(variant.weights), mini.program()
        digest = hashlib.sha256("".join(graph.fingerprint for graph in graphs.values()).encode())
        digest.update(program.constants.start.tobytes())  # every image depends on it as on the weights
        return Model(name=self.name, graphs=graphs, program=program, weights_fingerprint=digest.hexdigest())

    def metric(self, variant: Variant, dataset: Dataset) -> Metric | None:
        """Return FID and CLIP score over the captions of ``dataset``, which this workload opened."""
        if variant.weights is Weights.RANDOM:
            return None
        from mlbench_stable_diffusion_xl.dataset import Prompts
        from mlbench_stable_diffusion_xl.mini_profile import load_mini_profile

        assert isinstance(dataset, Prompts)
        profile = _full(variant) if variant.profile is Profile.FULL else _mini(variant)
        metric = profile.metric(dataset.captions)
        if variant.profile is Profile.MINI:
            metric.output_reference = load_mini_profile().output_reference()
        return metric


def _full(variant: Variant) -> FullProfile:
    from mlbench_stable_diffusion_xl.full_profile import FullProfile

    full = FullProfile(variant.options)
    full.check(variant.weights)
    return full


def _mini(variant: Variant) -> MiniProfile:
    from mlbench_stable_diffusion_xl.mini_profile import load_mini_profile

    if variant.options != StableDiffusionXLOptions():
        raise UsageError(
            "the mini profile of stable-diffusion-xl ships its files and takes no paths.", hint="Use the full profile."
        )
    return load_mini_profile()
