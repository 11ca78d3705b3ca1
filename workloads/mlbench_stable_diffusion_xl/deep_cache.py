"""DeepCache: the denoiser's deep features are computed every few steps, and kept in between.

Source: Ma et al., DeepCache: Accelerating Diffusion Models for Free, 2024; here the branch at the last block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge, Le

from mlbench import Transform, UsageError

if TYPE_CHECKING:
    from mlbench import Calibration, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepCacheOptions:
    """How long features are kept."""

    every: Annotated[int, Ge(2), Le(1000)] = 3
    """Number of steps for which features are computed once."""


class DeepCache(Transform):
    """Computes all of the denoiser in each n-th step, and its first and last block alone in the others."""

    name = "deepcache"
    title = "Stable Diffusion XL with deep features that are computed every 3rd step"
    options = DeepCacheOptions()
    checked_on = "stable-diffusion-xl"

    def apply(self, model: Model, calibration: Calibration) -> Model:
        """Return the model with two denoisers and a program that calls one of them in each step."""
        from mlbench_stable_diffusion_xl.cached_denoiser import CachingTextToImage, denoisers
        from mlbench_stable_diffusion_xl.graphs import UNET
        from mlbench_stable_diffusion_xl.program import TextToImage

        if UNET not in model.graphs:
            raise UsageError(
                f"{self.name} takes Stable Diffusion XL, and {model.name} is another model.", hint="Leave it out."
            )
        if type(model.program) is not TextToImage:
            raise UsageError(
                f"{self.name} takes the form for hosts, and this is {model.name} in the form for devices.",
                hint="Choose a backend that computes in the host's memory.",
            )
        every, steps = self.options.every, len(model.program.constants.schedule.timesteps)
        full = len(range(0, steps, every))
        others = {name: graph for name, graph in model.graphs.items() if name != UNET}
        says = f"deep features of the denoiser computed in {full} of {steps} steps, kept in between"
        return replace(
            model,
            graphs={**denoisers(model.graphs[UNET]), **others},
            program=CachingTextToImage(model.program, every),
            changes=(*model.changes, says),
        )
