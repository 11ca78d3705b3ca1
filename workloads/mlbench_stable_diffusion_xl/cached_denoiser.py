"""The denoiser in two parts, of which a program calls the deep one in some steps alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mlbench import Executable, Graph, TensorSpec
from mlbench.toolkit import ModuleGraph, host_array
from mlbench_stable_diffusion_xl.graphs import HIDDEN, NOISE, DenoiserGraph
from mlbench_stable_diffusion_xl.program import Denoise, TextToImage

if TYPE_CHECKING:
    import torch

DEEP_UNET, SHALLOW_UNET = "unet_deep", "unet_shallow"
"""Graphs in the place of the denoiser: all of it, and what is left where the deep features are known."""

DEEP = "deep"
"""The tensor of deep features: the input of the denoiser's last block."""


class CachingTextToImage(TextToImage):
    """Denoises with features that are kept for a few steps; a batch has its own."""

    def __init__(self, program: TextToImage, every: int) -> None:
        super().__init__(program.constants)
        self._every = every

    def denoiser(self, graphs: Mapping[str, Executable]) -> Denoise:
        """Return what predicts the noise in each step of a batch."""
        deep: Any = None

        def denoise(step: int, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
            nonlocal deep
            if step % self._every == 0:
                found = graphs[DEEP_UNET](inputs)
                deep = found[DEEP]
            else:
                shallow = {name: value for name, value in inputs.items() if name != HIDDEN}
                found = graphs[SHALLOW_UNET]({**shallow, DEEP: host_array(deep)})
            return host_array(found[NOISE])

        return denoise


def denoisers(whole: Graph) -> dict[str, Graph]:
    """Return both graphs that are made of the denoiser."""
    rows, (channels, height, width) = whole.inputs[0].shape[0], _deep_shape(whole)
    deep = TensorSpec(name=DEEP, shape=(rows, channels, height, width), dtype="float32", layout="NCHW")
    shallow_inputs = (*(spec for spec in whole.inputs if spec.name != HIDDEN), deep)
    return {
        DEEP_UNET: _part(DEEP_UNET, whole, whole.inputs, (*whole.outputs, deep)),
        SHALLOW_UNET: _part(SHALLOW_UNET, whole, shallow_inputs, whole.outputs),
    }


def _deep_shape(whole: Graph) -> tuple[int, int, int]:
    """Return channels, height and width of the deep features."""
    graph: Any = whole
    while not isinstance(graph, DenoiserGraph):  # below other transforms
        graph = graph.wrapped
    size = int(graph.config["sample_size"])
    return int(graph.config["block_out_channels"][1]), size, size


def _part(name: str, whole: Graph, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]) -> Graph:
    fingerprint = hashlib.sha256(f"{whole.fingerprint}, {name}".encode()).hexdigest()
    build: Callable[[], torch.nn.Module] = partial(_build, name, whole)
    return ModuleGraph(name, inputs=inputs, outputs=outputs, build=build, fingerprint=fingerprint, code=whole.code)


def _build(name: str, whole: Graph) -> torch.nn.Module:
    from mlbench_stable_diffusion_xl import modules

    kind = modules.DeepDenoiser if name == DEEP_UNET else modules.ShallowDenoiser
    module: torch.nn.Module = kind(whole.module().model)
    return module
