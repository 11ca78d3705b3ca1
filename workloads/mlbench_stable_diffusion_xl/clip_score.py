"""Similarity of an image and its caption: the cosine of open_clip's two embeddings, as the official script takes it.

Source: MLPerf Inference v4.1, text_to_image/tools/clip/clip_encoder.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import torch
from PIL import Image
from torch import Tensor

from mlbench import DataError
from mlbench.toolkit import load_weights, read_torchscript, verify_file
from mlbench_stable_diffusion_xl.accuracy import OFFICIAL_CLIP, OPENAI_SHA256

OPENAI_FILE = "ViT-B-32.pt"

_HINT = "Expected open_clip_model.safetensors of timm/vit_base_patch32_clip_224.openai, or OpenAI's ViT-B-32.pt."


@dataclass(frozen=True, slots=True)
class ClipScorer:
    """A CLIP, and how images and captions are made ready for it."""

    model: Any
    prepare: Callable[[Image.Image], Tensor]
    tokenize: Callable[[str], Tensor]
    """From a caption to (1, T) int64."""

    def score(self, image: np.ndarray, caption: str) -> float:
        """Return 100 times the cosine of an image (H, W, 3) uint8 and its caption; it may be negative."""
        with torch.inference_mode():
            seen = self.model.encode_image(self.prepare(Image.fromarray(image)).unsqueeze(0))
            read = self.model.encode_text(self.tokenize(caption))
        return float(cosines(seen, read)[0])


def cosines(images: Tensor, texts: Tensor) -> Tensor:
    """Return 100 times the cosine of each pair of embeddings, (N, D) float32 each."""
    images, texts = (each / each.norm(dim=-1, keepdim=True) for each in (images, texts))
    return 100 * (images * texts).sum(dim=-1)


def official_scorer(weights: Path, name: str = OFFICIAL_CLIP, sha256: str = OPENAI_SHA256) -> ClipScorer:
    """Return ViT-B/32 with OpenAI's weights.

    Args:
        weights: safetensors, or OpenAI's own file.
        name: open_clip's name of the network, another one in a smaller set.
        sha256: of OpenAI's own file.

    Raises:
        DataError: the file is missing or damaged, or holds the weights of another network.
    """
    state = _official_state(weights, sha256)
    model, _, prepare = open_clip.create_model_and_transforms(name, load_weights=False)
    _fill(model, state, weights, name)
    return ClipScorer(model.eval(), prepare, open_clip.get_tokenizer(name))


def scorer_of_folder(folder: Path, tokenize: Callable[[str], Tensor]) -> ClipScorer:
    """Return the CLIP in a folder as open_clip writes it: open_clip_config.json, open_clip_model.safetensors."""
    model, _, prepare = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    return ClipScorer(model.eval(), prepare, tokenize)


def _official_state(weights: Path, sha256: str) -> Mapping[str, Tensor]:
    """Return the tensors of a weights file; OpenAI's is TorchScript, whose code is not run."""
    if weights.name != OPENAI_FILE:
        return load_weights(weights, hint=_HINT)
    verify_file(weights, sha256=sha256, what="weights file", hint=_HINT)
    state = read_torchscript(weights, hint=_HINT)
    sizes = ("input_resolution", "context_length", "vocab_size")
    return {name: tensor.float() for name, tensor in state.items() if name not in sizes}


def _fill(model: torch.nn.Module, state: Mapping[str, Tensor], weights: Path, name: str) -> None:
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()[:200]
        raise DataError(f"{weights} contains no weights of {name}: {reason}", hint=_HINT) from None
