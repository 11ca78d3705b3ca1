"""From prompts to images: text encoders, the loop of the denoiser, and the decoder."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mlbench import BatchProgram, Executable, ReplySpec
from mlbench.toolkit import host_array
from mlbench_stable_diffusion_xl.checkpoint import MODELS
from mlbench_stable_diffusion_xl.graphs import (
    HIDDEN,
    IMAGE,
    LATENTS,
    NOISE,
    POOLED,
    TEXT_ENCODER,
    TEXT_ENCODER_2,
    TIME_IDS,
    TIMESTEP,
    TOKENS,
    UNET,
    VAE_DECODER,
    Sizes,
)

if TYPE_CHECKING:
    from mlbench_stable_diffusion_xl.checkpoint import Checkpoint
    from mlbench_stable_diffusion_xl.schedule import Schedule

NEGATIVE_PROMPT = "normal quality, low quality, worst quality, low res, blurry, nsfw, nude"
STEPS = 20
"""Source of both: MLPerf Inference v4.1, text_to_image; the closed division may not change them."""

PIXELS_PER_DECODE = 2**20
"""How many pixels the decoder is given at a time: one official image, which takes it gigabytes, or many small ones."""


Denoise = Callable[[int, Mapping[str, np.ndarray]], np.ndarray]
"""Takes the number of the step, from 0, and the denoiser's inputs; returns the predicted noise, (2B, C, h, w)."""


@dataclass(frozen=True, slots=True)
class Conditioning:
    """The denoiser's conditioning on prompts."""

    hidden: np.ndarray
    """(B, T, W) float32: both encoders' hidden states side by side."""
    pooled: np.ndarray
    """(B, P) float32."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Constants:
    """Inputs that are the same for every image."""

    start: np.ndarray
    """(1, C, h, w) float32: the standard normal latents that all begin with."""
    negative_tokens: np.ndarray
    """(2, T) int64: the negative prompt for both encoders."""
    schedule: Schedule
    guidance: float
    """Guidance scale: extrapolation from the negative prompt's prediction to the prompt's."""
    scaling: float
    """Factor of the decoder's latents in training."""
    image_hw: tuple[int, int]
    """Pixels."""

    @property
    def time_ids(self) -> np.ndarray:
        """(6,) float32: original size, crop and target size."""
        return np.array([*self.image_hw, 0, 0, *self.image_hw], dtype=np.float32)


def constants_of(checkpoint: Checkpoint, start: np.ndarray, guidance: float) -> Constants:
    """Return the settings from a checkpoint, without the initial latents and the guidance."""
    return Constants(
        start=start,
        negative_tokens=checkpoint.token_ids([NEGATIVE_PROMPT])[0],
        schedule=checkpoint.schedule(STEPS),
        guidance=guidance,
        scaling=checkpoint.config("vae")["scaling_factor"],
        image_hw=Sizes({part: checkpoint.config(part) for part in MODELS}).image_hw,
    )


class TextToImage(BatchProgram):
    """Denoises a batch of images together; a sample is the tokens of its prompt, (2, T) int64.

    The reply is (H, W, 3) uint8, RGB. Latents, guidance and the steps of the schedule are fp32 whatever the graphs
    compute in.
    """

    def __init__(self, constants: Constants) -> None:
        self.constants = constants
        self.reply = ReplySpec(dtype="uint8", shape=(*constants.image_hw, 3))
        self._negatives: dict[int, tuple[Callable[[], Any], Conditioning]] = {}

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the images, (B, H, W, 3) uint8.

        Raises:
            ValueError: a decoded image holds a NaN or an infinity.
        """
        return self.images(self.latents(samples, graphs), graphs)

    def latents(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the denoised latents: (B, C, h, w) float32, scaled."""
        constants, count = self.constants, len(samples)
        prompts, negative = encode_prompts(np.stack(samples), graphs), self._negative(graphs)
        conditions = {  # the negative prompt first, as in the reference
            HIDDEN: np.concatenate([np.repeat(negative.hidden, count, axis=0), prompts.hidden]),
            POOLED: np.concatenate([np.repeat(negative.pooled, count, axis=0), prompts.pooled]),
            TIME_IDS: np.tile(constants.time_ids, (2 * count, 1)),
        }
        schedule, denoise = constants.schedule, self.denoiser(graphs)
        latents = np.repeat(constants.start * np.float32(schedule.start_scale), count, axis=0)
        for step, timestep in enumerate(schedule.timesteps):
            rows = np.tile(schedule.scaled(latents, step), (2, 1, 1, 1))
            timesteps = np.full(2 * count, timestep, dtype=np.float32)
            noise = denoise(step, {LATENTS: rows, TIMESTEP: timesteps, **conditions})
            latents = schedule.next(latents, apply_guidance(noise, constants.guidance), step)
            self.report_progress(step + 1, len(schedule.timesteps))
        return latents

    def denoiser(self, graphs: Mapping[str, Executable]) -> Denoise:
        """Return what predicts the noise in each step of a batch, in turn."""
        return lambda step, inputs: host_array(graphs[UNET](inputs)[NOISE])

    def images(self, latents: np.ndarray, graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the images of latents; raises as `run`."""
        height, width = self.constants.image_hw
        at_once = max(1, PIXELS_PER_DECODE // (height * width))
        images = np.empty((len(latents), height, width, 3), dtype=np.uint8)
        for first in range(0, len(latents), at_once):
            part = latents[first : first + at_once] / np.float32(self.constants.scaling)
            decoded = host_array(graphs[VAE_DECODER]({LATENTS: part})[IMAGE])
            if not np.isfinite(decoded).all():
                raise ValueError("a decoded image contains a NaN or an infinity")
            images[first : first + at_once] = pixels((decoded / 2 + np.float32(0.5)).clip(0, 1))
        return images

    def _negative(self, graphs: Mapping[str, Executable]) -> Conditioning:
        """Return the negative prompt's conditioning, computed once with each engine's own encoders."""
        encoder = graphs[TEXT_ENCODER]
        owner, conditioning = self._negatives.get(id(encoder), (lambda: None, None))
        if conditioning is None or owner() is not encoder:
            conditioning = encode_prompts(self.constants.negative_tokens[np.newaxis], graphs)
            with contextlib.suppress(TypeError):  # an object with slots may not say when it goes: encode again then
                self._negatives[id(encoder)] = weakref.ref(encoder), conditioning
        return conditioning


def encode_prompts(tokens: np.ndarray, graphs: Mapping[str, Executable]) -> Conditioning:
    """Return the conditioning of prompts, tokens (B, 2, T)."""
    first, second = (
        graphs[name]({TOKENS: np.ascontiguousarray(tokens[:, place])})
        for place, name in enumerate((TEXT_ENCODER, TEXT_ENCODER_2))
    )
    hidden = np.concatenate([host_array(first[HIDDEN]), host_array(second[HIDDEN])], axis=-1)
    return Conditioning(hidden, host_array(second[POOLED]))


def apply_guidance(noise: np.ndarray, guidance: float) -> np.ndarray:
    """Return the noise to subtract, from the predictions for negative prompts and for prompts."""
    without, with_prompt = np.split(noise, 2)
    result: np.ndarray = without + np.float32(guidance) * (with_prompt - without)
    return result


def pixels(images: np.ndarray) -> np.ndarray:
    """Turn images (B, 3, H, W) in 0 .. 1 to (B, H, W, 3) uint8: rounded half to even, as the reference does."""
    scaled: np.ndarray = np.rint(images.astype(np.float32) * 255).astype(np.uint8)
    return scaled.transpose(0, 2, 3, 1)
