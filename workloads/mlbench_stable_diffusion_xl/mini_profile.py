"""The mini profile: a small Stable Diffusion XL that paints digits, its captions and its judges, all shipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mlbench import Graph, Precision, Target, Weights
from mlbench.toolkit import ShippedProfile, WorkloadRules
from mlbench_stable_diffusion_xl.accuracy import CLIP_SCORE, DIGIT_RATE, FID_SCORE, ImageQuality, Judges
from mlbench_stable_diffusion_xl.calibration import PROMPTS, calibration_id, denoiser_calls
from mlbench_stable_diffusion_xl.captions import read_captions
from mlbench_stable_diffusion_xl.checkpoint import MODELS, Checkpoint
from mlbench_stable_diffusion_xl.dataset import Prompts, read_latents
from mlbench_stable_diffusion_xl.device_form import DeviceForm
from mlbench_stable_diffusion_xl.digits import all_captions
from mlbench_stable_diffusion_xl.graphs import Sizes, build_graphs, random_graphs
from mlbench_stable_diffusion_xl.program import STEPS, TextToImage, constants_of

if TYPE_CHECKING:
    import numpy as np

CAPTIONS, LATENTS, STATISTICS, JUDGE = "captions.tsv", "latents.npy", "statistics.npz", "judge.safetensors"
CLIP = "clip"
CLIP_FILES = (f"{CLIP}/open_clip_config.json", f"{CLIP}/open_clip_model.safetensors")

GUIDANCE = 5.0
"""Less than the official 8, which would drive the small model's colours out of range; at 3 more digits are wrong."""

CLIP_MARGIN = 0.01
"""Relative margin around the reference, both ways."""


OUTPUT_BOUNDS = {Precision.FP32: 2e-3, Precision.FP16: 2.5e-2, Precision.BF16: 0.78, Precision.INT8: 2.3}
"""How far images may be from the fp32 model's; README.md has what honest and damaged runs give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MiniProfile(ShippedProfile):
    """Content of `mini.toml`, which describes the files beside it."""

    output_bounds = OUTPUT_BOUNDS
    output_unit = "levels of 255"

    samples: int
    fid_margin: float
    """How far FID may be from the reference, both ways, as a share of it."""
    lowest_digit_rate: float
    """Percent."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The diffusers folder, each of whose files has its checksum.

        Raises:
            DataError: a file is missing or damaged.
        """
        for name in self.files.sha256:
            if name.startswith((*MODELS, "tokenizer", "scheduler", "model_index")):
                self.files.file(name)
        return Checkpoint.opened(self.files.path)

    @property
    def sizes(self) -> Sizes:
        """Sizes of the tensors."""
        return Sizes({part: self.checkpoint.config(part) for part in MODELS})

    def targets(self, rules: WorkloadRules) -> tuple[Target, ...]:
        """Return limits around this profile's reference: all three are needed, since no score sees every fault."""
        around = ((CLIP_SCORE, CLIP_MARGIN), (FID_SCORE, self.fid_margin))
        digits = self.reference_score(DIGIT_RATE)
        return (
            *(self._range(name, share) for name, share in around),
            Target(score=DIGIT_RATE, reference=digits, lower=self.lowest_digit_rate, name="digits"),
        )

    def _range(self, name: str, share: float) -> Target:
        reference = self.reference_score(name)
        return Target(
            score=name,
            reference=reference,
            lower=reference * (1 - share),
            upper=reference * (1 + share),
            name="range",
            lower_is_better=name == FID_SCORE,
        )

    def dataset(self) -> Prompts:
        """Open the captions."""
        captions = read_captions(self.files.file(CAPTIONS), count=self.samples)
        return Prompts(captions, self.checkpoint.token_ids)

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return the four graphs, with the shipped weights or random ones."""
        checkpoint = self.checkpoint
        if weights is Weights.RANDOM:
            return random_graphs({part: checkpoint.config(part) for part in MODELS}, self._calibration_inputs)
        return build_graphs(checkpoint, self._calibration_inputs, calibration_id=calibration_id(STEPS))

    def _calibration_inputs(self, graphs: Mapping[str, Graph]) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the denoiser's inputs for some captions that are not scored."""
        scored = {*read_captions(self.files.file(CAPTIONS), count=self.samples).texts}
        others = [caption for _, caption in all_captions() if caption not in scored]
        prompts = self.checkpoint.token_ids(others[:: len(others) // PROMPTS][:PROMPTS])
        return denoiser_calls(self.program.constants, graphs, [*prompts])

    @property
    def program(self) -> TextToImage:
        """The program that turns prompts into images."""
        start = read_latents(self.files.file(LATENTS), self.sizes.latents)
        return TextToImage(constants_of(self.checkpoint, start, GUIDANCE))

    def on_device(self) -> DeviceForm:
        """Return the form that keeps images on the device."""
        return DeviceForm(self, self.sizes, lambda: self.program.constants)

    def metric(self, captions: Sequence[str], targets: tuple[Target, ...]) -> ImageQuality:
        """Return FID, CLIP score and digit rate over these captions."""
        return ImageQuality(self.judges, captions, self.sizes.image_hw, targets)

    def judges(self) -> Judges:
        """Read the networks that judge images, and the statistics of real ones."""
        import torch

        from mlbench_stable_diffusion_xl.clip_score import scorer_of_folder
        from mlbench_stable_diffusion_xl.digits import motif_of
        from mlbench_stable_diffusion_xl.fid import mini_extractor, read_judge, read_statistics
        from mlbench_stable_diffusion_xl.judge import digits_seen

        for name in CLIP_FILES:
            self.files.file(name)
        weights, checkpoint = self.files.file(JUDGE), self.checkpoint
        judge = read_judge(weights)

        def tokenize(caption: str) -> torch.Tensor:
            return torch.from_numpy(checkpoint.token_ids([caption])[:, 1])

        def is_right(image: np.ndarray, caption: str) -> bool:
            return bool(digits_seen(judge, torch.from_numpy(image).permute(2, 0, 1)[None]) == motif_of(caption).digit)

        return Judges(
            reference=read_statistics(self.files.file(STATISTICS)),
            features=mini_extractor(weights),
            clip=scorer_of_folder(self.files.path / CLIP, tokenize).score,
            is_right=is_right,
        )
