"""Inputs of the denoiser that activations' ranges are taken from: those of the first steps of some prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from mlbench_stable_diffusion_xl.graphs import TEXT_ENCODER, TEXT_ENCODER_2, UNET
from mlbench_stable_diffusion_xl.program import Constants, Denoise, TextToImage

if TYPE_CHECKING:
    import numpy as np

    from mlbench import Executable, Graph

FIRST_STEPS = 8
"""Of 20: activations are largest where there is most noise. Source: NVIDIA's submission to MLPerf Inference v4.1."""

_BATCH = 8

Inputs = Mapping[str, "np.ndarray"]


def denoiser_calls(
    constants: Constants, graphs: Mapping[str, Graph], prompts: Sequence[np.ndarray], steps: int = FIRST_STEPS
) -> Iterator[Inputs]:
    """Yield the denoiser's inputs in the first steps of prompts, (2, T) int64 each; torch computes them in fp32."""
    run = {name: _in_torch(graphs[name]) for name in (TEXT_ENCODER, TEXT_ENCODER_2, UNET)}
    for start in range(0, len(prompts), _BATCH):
        program = _FirstSteps(constants, steps)
        with suppress(_EnoughStepsError):
            program.latents(prompts[start : start + _BATCH], run)
        yield from program.calls


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


def _in_torch(graph: Graph) -> Callable[[Inputs], Mapping[str, np.ndarray]]:
    import torch

    module = graph.module()

    def run(inputs: Inputs) -> Mapping[str, np.ndarray]:
        with torch.no_grad():
            found = module(*(torch.from_numpy(inputs[spec.name]) for spec in graph.inputs))
        outputs = found if isinstance(found, tuple) else (found,)
        return {spec.name: output.numpy() for spec, output in zip(graph.outputs, outputs, strict=True)}

    return run
