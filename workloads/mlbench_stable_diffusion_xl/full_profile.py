"""The full profile: the official model, captions and judges, from the user's paths."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Graph, Target, UsageError, Weights
from mlbench.toolkit import UserFilesProfile, check_files, list_deviations
from mlbench_stable_diffusion_xl.accuracy import OFFICIAL_CLIP, OPENAI_SHA256, ImageQuality, Judges
from mlbench_stable_diffusion_xl.architecture import OFFICIAL, SCHEDULER
from mlbench_stable_diffusion_xl.calibration import PROMPTS, calibration_id, denoiser_calls
from mlbench_stable_diffusion_xl.captions import CALIBRATION_CAPTIONS, OFFICIAL_CAPTIONS, read_captions
from mlbench_stable_diffusion_xl.checkpoint import Checkpoint
from mlbench_stable_diffusion_xl.dataset import Prompts, RandomPrompts, draw_latents, read_latents
from mlbench_stable_diffusion_xl.device_form import DeviceForm
from mlbench_stable_diffusion_xl.graphs import Configs, Sizes, build_graphs, random_graphs
from mlbench_stable_diffusion_xl.program import STEPS, Constants, TextToImage, constants_of
from mlbench_stable_diffusion_xl.schedule import euler_schedule

if TYPE_CHECKING:
    from mlbench_stable_diffusion_xl.workload import StableDiffusionXLOptions

GUIDANCE = 8.0
"""Source: MLPerf Inference v4.1, text_to_image; the closed division may not change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files; the model's configurations have the rest."""

    captions: int
    clip_model: str
    """open_clip's name of the network that looks at images and captions."""
    clip_sha256: str
    """OpenAI's own file of its weights."""


@dataclass(frozen=True, slots=True)
class FullProfile(UserFilesProfile[OfficialFiles]):
    """The official model over the files that the options name."""

    official = OfficialFiles(captions=OFFICIAL_CAPTIONS, clip_model=OFFICIAL_CLIP, clip_sha256=OPENAI_SHA256)

    options: StableDiffusionXLOptions
    weights: Weights

    @property
    def configs(self) -> Configs:
        """The official configurations by part; of a smaller set what its folder says."""
        if not self.options.smaller:
            return OFFICIAL
        return {part: self.checkpoint.config(part) for part in OFFICIAL}

    @property
    def sizes(self) -> Sizes:
        """Sizes of the tensors."""
        return Sizes(self.configs)

    @property
    def deviations(self) -> tuple[str, ...]:
        """Where files and configurations are not the official ones."""
        return (*self.form.deviations, *list_deviations(OFFICIAL, self.configs))

    def check(self) -> None:
        """Raise `UsageError` for a path that is missing or not used."""
        options = self.options
        if self.weights is Weights.RANDOM and (given := [name for name in PATHS_OF_TRAINED if getattr(options, name)]):
            raise UsageError(f"random weights read no files, but workload.{given[0]} is given.", hint="Leave it out.")
        needs = {"data": "the captions", "weights": "trained weights"}
        check_files("stable-diffusion-xl", self.weights, options, needs)

    @property
    def checkpoint(self) -> Checkpoint:
        """The user's diffusers folder; raises `DataError` where it is not a Stable Diffusion XL base."""
        assert self.options.weights is not None
        checkpoint = Checkpoint.opened(Path(self.options.weights))
        if not self.options.smaller:
            checkpoint.check(OFFICIAL)
        return checkpoint

    def dataset(self) -> Prompts | RandomPrompts:
        """Open the captions; for random weights, random tokens."""
        if self.weights is Weights.RANDOM:
            return RandomPrompts(tokens=self.sizes.tokens, vocabulary=OFFICIAL["text_encoder"]["vocab_size"])
        assert self.options.data is not None
        captions = read_captions(Path(self.options.data), count=self.files.captions)
        return Prompts(captions, self.checkpoint.token_ids)

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return the four graphs, with the user's weights or random ones."""
        if weights is Weights.RANDOM:
            return random_graphs(OFFICIAL)
        if not self.options.calibration:
            return build_graphs(self.checkpoint)
        steps = calibration_id(self.options.calibration_steps)
        return build_graphs(self.checkpoint, self._calibration_inputs, calibration_id=steps)

    def _calibration_inputs(self, graphs: Mapping[str, Graph]) -> Iterator[Mapping[str, np.ndarray]]:
        assert self.options.calibration is not None
        captions = read_captions(Path(self.options.calibration), count=CALIBRATION_CAPTIONS)
        prompts = self.checkpoint.token_ids(captions.texts[:PROMPTS])
        return denoiser_calls(self.program.constants, graphs, [*prompts], self.options.calibration_steps)

    @property
    def program(self) -> TextToImage:
        """The program that turns prompts into images."""
        if self.weights is Weights.TRAINED:
            return TextToImage(constants_of(self.checkpoint, self._start(), GUIDANCE))
        constants = Constants(
            start=self._start(),
            negative_tokens=self.dataset().sample(OFFICIAL_CAPTIONS),
            schedule=euler_schedule(SCHEDULER, STEPS),
            guidance=GUIDANCE,
            scaling=OFFICIAL["vae"]["scaling_factor"],
            image_hw=self.sizes.image_hw,
        )
        return TextToImage(constants)

    def on_device(self) -> DeviceForm:
        """Return the form that keeps images on the device."""
        return DeviceForm(self, self.sizes, lambda: self.program.constants)

    def metric(self, captions: Sequence[str], targets: tuple[Target, ...]) -> ImageQuality:
        """Return FID and CLIP score over these captions.

        Raises:
            UsageError: a file of the judges was not named.
        """
        for name, what in JUDGE_PATHS.items():
            if not getattr(self.options, name):
                raise UsageError(
                    f"the accuracy of stable-diffusion-xl needs {what}.",
                    hint=f"Give it with --set workload.{name}=PATH, or measure without: --no-accuracy.",
                )
        return ImageQuality(self.judges, captions, self.sizes.image_hw, targets)

    def judges(self) -> Judges:
        """Read the networks that judge images, and the statistics of real ones."""
        from mlbench_stable_diffusion_xl.clip_score import official_scorer
        from mlbench_stable_diffusion_xl.fid import official_extractor, read_statistics

        statistics, inception, clip = (Path(getattr(self.options, name)) for name in JUDGE_PATHS)
        return Judges(
            reference=read_statistics(statistics),
            features=official_extractor(inception),
            clip=official_scorer(clip, self.files.clip_model, self.files.clip_sha256).score,
        )

    def _start(self) -> np.ndarray:
        if self.options.latents is None:
            return draw_latents(self.sizes.latents)
        return read_latents(Path(self.options.latents), self.sizes.latents)


JUDGE_PATHS = {
    "statistics": "the statistics of real images (val2014.npz)",
    "inception": "the FID network's weights",
    "clip": "CLIP's weights",
}
PATHS_OF_TRAINED = ("data", "calibration", "weights", *JUDGE_PATHS)
