"""The official workloads by name, and variants of them with some of their options."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

from mlbench import Profile, Variant, Weights

PACKAGES = (
    *("bert", "dlrm_v2", "gptj", "llama2_70b", "llama3_1_8b", "mixtral_8x7b"),
    *("resnet50", "retinanet", "stable_diffusion_xl", "unet3d"),
)
WORKLOADS = {each.name: each for name in PACKAGES for each in import_module(f"mlbench_{name}").mlbench_workloads()}


def variants_of(name: str) -> tuple[Callable[..., Variant], Callable[..., Variant]]:
    """Return two functions: the full variant, and the mini one, each with a kind of weights and some options."""

    def variant(profile: Profile, kind: Weights = Weights.TRAINED, **options: Any) -> Variant:
        return Variant(profile=profile, weights=kind, options=replace(WORKLOADS[name].options, **options))

    return partial(variant, Profile.FULL), partial(variant, Profile.MINI)
