from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mlbench_recipes.stable_diffusion_xl import recipe
from mlbench_stable_diffusion_xl.architecture import SCHEDULER

from mlbench import Graph
from mlbench.toolkit import in_torch


@pytest.fixture(scope="session")
def tiny_pipeline() -> Any:
    """diffusers' own pipeline over the mini architecture with weights freshly drawn."""
    from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel

    torch.manual_seed(0)
    tokenizers = recipe.make_tokenizers()
    encoders = recipe.make_text_encoders(len(tokenizers[0]))
    return StableDiffusionXLPipeline(
        vae=AutoencoderKL(**recipe.MINI_VAE).eval(),
        unet=UNet2DConditionModel(**recipe.MINI_UNET).eval(),
        scheduler=EulerDiscreteScheduler(**SCHEDULER),
        tokenizer=tokenizers[0],
        tokenizer_2=tokenizers[1],
        text_encoder=encoders.first.eval(),
        text_encoder_2=encoders.second.eval(),
        add_watermarker=False,
    )


@pytest.fixture(scope="session")
def tiny_folder(tiny_pipeline: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the tiny pipeline writes. Copy it before changing anything."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_pipeline.save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(scope="session")
def compiled() -> Iterator[Any]:
    """Turns graphs into executables that call their torch modules."""

    def executables(graphs: Mapping[str, Graph]) -> Mapping[str, Any]:
        return {name: in_torch(graph) for name, graph in graphs.items()}

    yield executables


@pytest.fixture
def tokens() -> Any:
    """Returns the tokens of captions for a checkpoint, a row each."""

    def rows(checkpoint: Any, *captions: str) -> list[np.ndarray]:
        return list(checkpoint.token_ids(captions))

    return rows
