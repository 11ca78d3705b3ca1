"""The configurations of the official model's parts, as diffusers and transformers spell them.

Source: stabilityai/stable-diffusion-xl-base-1.0, which MLPerf Inference v4.1 names. What is left out has the libraries'
default, which is the official value too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TEXT_ENCODER: Mapping[str, Any] = {
    "vocab_size": 49408,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "projection_dim": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
    "bos_token_id": 0,
    "eos_token_id": 2,  # as published: transformers then takes the token with the highest id, which is the end token
    "pad_token_id": 1,
}

TEXT_ENCODER_2: Mapping[str, Any] = {
    **TEXT_ENCODER,
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "projection_dim": 1280,
    "num_hidden_layers": 32,
    "num_attention_heads": 20,
    "hidden_act": "gelu",
}

UNET: Mapping[str, Any] = {
    "sample_size": 128,
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [320, 640, 1280],
    "layers_per_block": 2,
    "transformer_layers_per_block": [1, 2, 10],
    "attention_head_dim": [5, 10, 20],  # heads, by a slip of diffusers that its models keep
    "cross_attention_dim": 2048,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}

VAE: Mapping[str, Any] = {
    "sample_size": 1024,
    "latent_channels": 4,
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [128, 256, 512, 512],
    "layers_per_block": 2,
    "scaling_factor": 0.13025,
    "force_upcast": True,
}

SCHEDULER: Mapping[str, Any] = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "epsilon",
    "interpolation_type": "linear",
    "timestep_spacing": "leading",
    "steps_offset": 1,
    "use_karras_sigmas": False,
}

OFFICIAL: Mapping[str, Mapping[str, Any]] = {
    "text_encoder": TEXT_ENCODER,
    "text_encoder_2": TEXT_ENCODER_2,
    "unet": UNET,
    "vae": VAE,
}


def build_part(part: str, config: Mapping[str, Any]) -> torch.nn.Module:
    """Return a part of the model as its library builds it from a configuration, with weights freshly drawn."""
    import diffusers
    import transformers

    module: torch.nn.Module
    match part:
        case "text_encoder":
            module = transformers.CLIPTextModel(transformers.CLIPTextConfig(**config))
        case "text_encoder_2":
            module = transformers.CLIPTextModelWithProjection(transformers.CLIPTextConfig(**config))
        case "unet":
            module = diffusers.UNet2DConditionModel.from_config(dict(config))
        case "vae":
            module = diffusers.AutoencoderKL.from_config(dict(config))
        case _:
            raise ValueError(f"no part of the model: {part}")
    return module
