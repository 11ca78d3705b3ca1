"""Inputs of the denoiser that activations' ranges are taken from: those of the steps of some prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mlbench.toolkit import in_torch
from mlbench_stable_diffusion_xl.graphs import TEXT_ENCODER, TEXT_ENCODER_2, UNET
from mlbench_stable_diffusion_xl.program import STEPS, Constants, Denoise, TextToImage

if TYPE_CHECKING:
    import numpy as np

    from mlbench import Executable, Graph

PROMPTS = 32
"""So many prompts of a list are taken: an activation is seen at each place of a picture."""

_BATCH = 8

Inputs = Mapping[str, "np.ndarray"]


def denoiser_calls(
    constants: Constants, graphs: Mapping[str, Graph], prompts: Sequence[np.ndarray], steps: int = STEPS
) -> Iterator[Inputs]:
    """Yield the denoiser's inputs in the first steps of prompts, (2, T) int64 each; torch computes them in fp32."""
    run = {name: in_torch(graphs[name]) for name in (TEXT_ENCODER, TEXT_ENCODER_2, UNET)}
    for start in range(0, len(prompts), _BATCH):
        program = _FirstSteps(constants, steps)
        with suppress(_EnoughStepsError):
            program.latents(prompts[start : start + _BATCH], run)
        yield from program.calls


def calibration_id(steps: int) -> str:
    """Tell calls of so many steps of each prompt from others."""
    return f"{steps} steps of {PROMPTS} prompts"


class _EnoughStepsError(Exception):
    """Ends a denoising that nothing more is wanted of."""


class _FirstSteps(TextToImage):
    """Keeps the denoiser's inputs, and ends after some steps."""

    def __init__(self, constants: Constants, steps: int) -> None:
        super().__init__(constants)
        self._steps = steps
        self.calls: list[Inputs] = []

    def denoiser(self, graphs: Mapping[str, Executable]) -> Denoise:
        """Return what predicts the noise in each of the first steps."""
        predict = super().denoiser(graphs)

        def denoise(step: int, inputs: Inputs) -> np.ndarray:
            self.calls.append(inputs)
            if len(self.calls) == self._steps:
                raise _EnoughStepsError
            return predict(step, inputs)

        return denoise
