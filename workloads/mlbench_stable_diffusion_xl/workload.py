"""The workload Stable Diffusion XL: its options, and which parts make up each variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

from annotated_types import Ge, Le

from mlbench import Variant
from mlbench.toolkit import ProfiledWorkload

if TYPE_CHECKING:
    from mlbench import BatchProgram, GenerationProgram, Graph, Metric, Target
    from mlbench_stable_diffusion_xl.accuracy import ImageQuality
    from mlbench_stable_diffusion_xl.dataset import Prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class StableDiffusionXLOptions:
    """The official files of the full profile."""

    data: Path | None = None
    """captions_source.tsv, or COCO's own captions_val2014.json to select from."""
    calibration: Path | None = None
    """captions_train2014.json, from which the official 500 are chosen, or these as a caption file; needed for int8."""
    calibration_steps: Annotated[int, Ge(1), Le(20)] = 20
    """Steps of each caption whose activations are seen for int8; submitters of v4.1 took the first 8."""
    weights: Path | None = None
    """The folder of the diffusers pipeline, or MLCommons' archive unpacked."""
    latents: Path | None = None
    """latents.npy or latents.pt; without it they are drawn again, with differences of at most 2.4e-7."""
    statistics: Path | None = None
    """val2014.npz: the statistics that FID compares with."""
    inception: Path | None = None
    """pt_inception-2015-12-05-6726825d.pth: the network whose features FID compares."""
    clip: Path | None = None
    """Weights of OpenAI's ViT-B/32, open_clip_model.safetensors or ViT-B-32.pt."""
    smaller: Path | None = None
    """smaller.toml of a smaller set of the official form; a run on it is not official."""


class JudgedProfile(Protocol):
    """A profile with judges of its images."""

    def metric(self, captions: Sequence[str], targets: tuple[Target, ...]) -> ImageQuality:
        """Return the scores over these captions."""


class StableDiffusionXL(ProfiledWorkload):
    """Stable Diffusion XL on captions of COCO 2014, and a small copy of it that paints digits."""

    name = "stable-diffusion-xl"
    title = "Stable Diffusion XL base, text to image, COCO 2014"
    rules = "stable-diffusion-xl"
    options = StableDiffusionXLOptions()
    tuning = Path(__file__).parent / "tuning.toml"
    sources = Path(__file__).parent / "sources.toml"
    preload_always = (
        "torch",
        "torch._dynamo",
        "transformers.modeling_utils",
        "diffusers.schedulers.scheduling_euler_discrete",
        "diffusers.models.unets.unet_2d_condition",
    )

    def build_metric(
        self, variant: Variant, profile: JudgedProfile, dataset: Prompts, targets: tuple[Target, ...]
    ) -> Metric:
        """Return FID and CLIP score over the captions; on mini the rate of right digits too."""
        metric = profile.metric(dataset.captions, targets)
        metric.shown = self.rules_in(variant).round.files.images
        return metric

    def weights_fingerprint(self, graphs: Mapping[str, Graph], program: BatchProgram | GenerationProgram) -> str:
        """Return a hash of all graphs, and of the latents: every image depends on them as on the weights."""
        import hashlib

        from mlbench_stable_diffusion_xl.program import TextToImage

        assert isinstance(program, TextToImage)
        digest = hashlib.sha256("".join(graph.fingerprint for graph in graphs.values()).encode())
        digest.update(program.constants.start.tobytes())
        return digest.hexdigest()
