"""How well an image fits its caption: the cosine of open_clip's two embeddings, as the official script takes it.

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
from mlbench.toolkit import load_weights, verify_file

OFFICIAL_MODEL = "ViT-B-32-quickgelu"
"""The official script asks for ViT-B-32, to which the releases of its time gave QuickGELU with these weights."""

OPENAI_FILE, OPENAI_SHA256 = "ViT-B-32.pt", "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af"
"""OpenAI's own file; the checksum is a part of its address."""

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


def official_scorer(weights: Path) -> ClipScorer:
    """Return ViT-B/32 with OpenAI's weights.

    Raises:
        DataError: the file is missing or damaged, or holds the weights of another network.
    """
    state = _official_state(weights)
    model, _, prepare = open_clip.create_model_and_transforms(OFFICIAL_MODEL, load_weights=False)
    _fill(model, state, weights)
    return ClipScorer(model.eval(), prepare, open_clip.get_tokenizer(OFFICIAL_MODEL))


def scorer_of_folder(folder: Path, tokenize: Callable[[str], Tensor]) -> ClipScorer:
    """Return the CLIP in a folder as open_clip writes it: open_clip_config.json, open_clip_model.safetensors."""
    model, _, prepare = open_clip.create_model_and_transforms(f"local-dir:{folder}")
    return ClipScorer(model.eval(), prepare, tokenize)


def _official_state(weights: Path) -> Mapping[str, Tensor]:
    """Return the tensors of a weights file; OpenAI's, which can hold code, is opened if it is the one that is known."""
    if weights.name != OPENAI_FILE:
        return load_weights(weights, hint=_HINT)
    verify_file(weights, sha256=OPENAI_SHA256, what="weights file", hint=_HINT)
    state = torch.jit.load(weights, map_location="cpu").state_dict()  # type: ignore[no-untyped-call]
    sizes = ("input_resolution", "context_length", "vocab_size")
    return {name: tensor.float() for name, tensor in state.items() if name not in sizes}


def _fill(model: torch.nn.Module, state: Mapping[str, Tensor], weights: Path) -> None:
    try:
        model.load_state_dict(dict(state))
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()[:200]
        raise DataError(f"{weights} holds no weights of {OFFICIAL_MODEL}: {reason}", hint=_HINT) from None
