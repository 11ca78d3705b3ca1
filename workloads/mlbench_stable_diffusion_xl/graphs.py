"""The model as four graphs: two text encoders, the denoiser, and the decoder of the autoencoder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mlbench import Dim, Graph, Precision, TensorSpec
from mlbench.toolkit import ModuleGraph, build_seeded
from mlbench_stable_diffusion_xl.architecture import build_part

if TYPE_CHECKING:
    import numpy as np
    import torch

    from mlbench_stable_diffusion_xl.checkpoint import Checkpoint

TEXT_ENCODER, TEXT_ENCODER_2, UNET, VAE_DECODER = "text_encoder", "text_encoder_2", "unet", "vae_decoder"
"""Names of the graphs."""

CONFIG_OF = {TEXT_ENCODER: "text_encoder", TEXT_ENCODER_2: "text_encoder_2", UNET: "unet", VAE_DECODER: "vae"}
"""Which part of the checkpoint each graph is made of."""

TOKENS, HIDDEN, POOLED = "tokens", "hidden", "pooled"
LATENTS, TIMESTEP, TIME_IDS, NOISE, IMAGE = "latents", "timestep", "time_ids", "noise", "image"
"""Names of their tensors."""

RANDOM_SEED = 0

IMAGES = Dim(name="images", smallest=1, usual=8, largest=64)
ROWS = Dim(name="rows", smallest=2, usual=16, largest=128)
"""Rows of the denoiser: each image has one for the negative prompt and one for its own."""

Specs = tuple[TensorSpec, ...]

Configs = Mapping[str, Mapping[str, Any]]
"""Configurations by part: ``text_encoder``, ``text_encoder_2``, ``unet``, ``vae``."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the tensors, read from the configurations."""

    configs: Configs

    @property
    def tokens(self) -> int:
        """How many positions a prompt has."""
        return int(self.configs["text_encoder"]["max_position_embeddings"])

    @property
    def widths(self) -> tuple[int, int]:
        """Widths of the hidden states of the two text encoders."""
        first, second = (int(self.configs[part]["hidden_size"]) for part in ("text_encoder", "text_encoder_2"))
        return first, second

    @property
    def pooled(self) -> int:
        """Length of the vector for the whole prompt."""
        return int(self.configs["text_encoder_2"]["projection_dim"])

    @property
    def latents(self) -> tuple[int, int, int]:
        """Channels, height and width of an image's latents."""
        unet = self.configs["unet"]
        return int(unet["in_channels"]), int(unet["sample_size"]), int(unet["sample_size"])

    @property
    def image_hw(self) -> tuple[int, int]:
        """Height and width of an image, pixels."""
        doublings = len(self.configs["vae"]["block_out_channels"]) - 1
        _, height, width = self.latents
        return height << doublings, width << doublings


Calibrate = Callable[[Mapping[str, Graph]], Iterator[Mapping[str, "np.ndarray"]]]
"""Yields inputs of the denoiser, given all graphs."""


def build_graphs(
    checkpoint: Checkpoint, calibrate: Calibrate | None = None, *, calibration_id: str = ""
) -> Mapping[str, Graph]:
    """Return the four graphs with the weights of a checkpoint, which are read when a backend asks for a module."""
    configs = {part: checkpoint.config(part) for part in CONFIG_OF.values()}
    return _graphs(configs, checkpoint.module, checkpoint.fingerprint, calibrate, calibration_id)


def random_graphs(configs: Configs, calibrate: Calibrate | None = None) -> Mapping[str, Graph]:
    """Return the four graphs with seeded weights, the same each time; the global generator stays as it was."""

    def module(part: str) -> torch.nn.Module:
        return build_seeded(lambda: build_part(part, configs[part]), seed=RANDOM_SEED)

    return _graphs(configs, module, lambda part: f"random-seed{RANDOM_SEED}-{sorted(configs[part].items())}", calibrate)


def _graphs(
    configs: Configs,
    module: Callable[[str], torch.nn.Module],
    fingerprint: Callable[[str], str],
    calibrate: Calibrate | None = None,
    calibration_id: str = "",
) -> Mapping[str, Graph]:
    found: dict[str, Graph] = {}

    def graph(name: str, inputs: Specs, outputs: Specs) -> Graph:
        part = CONFIG_OF[name]

        def build() -> torch.nn.Module:
            return _wrap(name, module(part))

        kind: Callable[..., Graph] = FloatGraph
        if name == UNET:
            kind = partial(
                DenoiserGraph, configs[part], calibration_id, calibrate=calibrate and partial(calibrate, found)
            )
        elif name == VAE_DECODER and configs[part].get("force_upcast", True):
            kind = DecoderGraph
        return kind(name, inputs=inputs, outputs=outputs, build=build, fingerprint=f"{fingerprint(part)}-{name}")

    found |= {name: graph(name, *specs) for name, specs in _specs(Sizes(configs)).items()}
    return found


def _wrap(name: str, model: torch.nn.Module) -> torch.nn.Module:
    """Return a part of the checkpoint as the function of tensors that a graph is."""
    from mlbench_stable_diffusion_xl import modules

    kinds = {
        TEXT_ENCODER: modules.FirstEncoder,
        TEXT_ENCODER_2: modules.SecondEncoder,
        UNET: modules.Denoiser,
        VAE_DECODER: modules.Decoder,
    }
    return kinds[name](model)


def _specs(sizes: Sizes) -> Mapping[str, tuple[Specs, Specs]]:
    """Return inputs and outputs of each graph.

    The denoiser comes first: compiling it takes most memory, and the others are not to be there yet.
    """
    tokens = TensorSpec(name=TOKENS, shape=(IMAGES, sizes.tokens), dtype="int64")
    first, second = (_floats(HIDDEN, IMAGES, sizes.tokens, width) for width in sizes.widths)
    denoiser_inputs = (
        _floats(LATENTS, ROWS, *sizes.latents),
        _floats(TIMESTEP, ROWS),
        _floats(HIDDEN, ROWS, sizes.tokens, sum(sizes.widths)),
        _floats(POOLED, ROWS, sizes.pooled),
        _floats(TIME_IDS, ROWS, 6),
    )
    return {
        UNET: (denoiser_inputs, (_floats(NOISE, ROWS, *sizes.latents),)),
        TEXT_ENCODER: ((tokens,), (first,)),
        TEXT_ENCODER_2: ((tokens,), (second, _floats(POOLED, IMAGES, sizes.pooled))),
        VAE_DECODER: ((_floats(LATENTS, IMAGES, *sizes.latents),), (_floats(IMAGE, IMAGES, 3, *sizes.image_hw),)),
    }


class DenoiserGraph(ModuleGraph):
    """The denoiser, with its configuration."""

    unquantized = ("time_embedding", "add_embedding", "time_emb_proj", "conv_in", "conv_out", "conv_shortcut")
    """Source: what NVIDIA's Model Optimizer leaves out of Stable Diffusion XL in int8."""

    def __init__(self, config: Mapping[str, Any], calibration_id: str, name: str, **made: Any) -> None:
        super().__init__(name, **made)
        self.config = config
        self.calibration_id = calibration_id


class FloatGraph(ModuleGraph):
    """A text encoder or decoder: called once for 20 calls of the denoiser, so that int8 would save little."""

    def precision(self, asked: Precision) -> Precision:
        """Return fp32 for 8-bit precisions."""
        return Precision.FP32 if asked in (Precision.INT8, Precision.FP8) else asked


class DecoderGraph(FloatGraph):
    """A decoder whose activations overflow in fp16."""

    def precision(self, asked: Precision) -> Precision:
        """Return fp32 for fp16 too, as the reference does (``force_upcast``)."""
        return Precision.FP32 if asked is Precision.FP16 else super().precision(asked)


def _floats(name: str, *shape: int | Dim) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, dtype="float32", layout="NCHW" if len(shape) == 4 else "")
