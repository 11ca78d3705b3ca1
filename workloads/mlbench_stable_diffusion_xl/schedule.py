"""The noise levels of denoising: Euler's method on a discrete schedule."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """What diffusers' scheduler computes once; a step is a line of arithmetic.

    Source: MLPerf Inference v4.1, text_to_image: EulerDiscreteScheduler of the base model, without churn.
    """

    timesteps: np.ndarray
    """(steps,) float32: the network's number of each level."""
    sigmas: np.ndarray
    """(steps + 1,) float32: the noise of each level; the last is 0."""
    start_scale: float
    """Initial factor of standard normal latents."""

    def scaled(self, latents: np.ndarray, step: int) -> np.ndarray:
        """Return the network's input latents at a step."""
        scaled: np.ndarray = latents / (self.sigmas[step] ** 2 + 1) ** 0.5
        return scaled

    def next(self, latents: np.ndarray, noise: np.ndarray, step: int) -> np.ndarray:
        """Return the latents after a step, given the predicted noise."""
        following: np.ndarray = latents + (self.sigmas[step + 1] - self.sigmas[step]) * noise
        return following


def euler_schedule(config: Mapping[str, Any], steps: int) -> Schedule:
    """Return diffusers' schedule with a number of steps."""
    from diffusers import EulerDiscreteScheduler

    scheduler = EulerDiscreteScheduler.from_config(dict(config))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it asks torch for an array in an old way
        scheduler.set_timesteps(steps)
    return Schedule(
        timesteps=scheduler.timesteps.numpy().astype("float32"),
        sigmas=scheduler.sigmas.numpy().astype("float32"),
        start_scale=float(scheduler.init_noise_sigma),
    )
