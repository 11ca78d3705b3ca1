"""The settings of a user's own model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import Ge


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModelOptions:
    """The model, and the values for all that its file leaves open."""

    model: Path | None = None
    """The ONNX file (.onnx) or torch exported program (.pt2)."""
    shapes: str = ""
    """Shapes of inputs, comma-separated: ``image=8x3x224x224``."""
    dims: str = ""
    """Sizes of open dimensions, comma-separated, each a number or a range: ``seq=128``, ``seq=16..512``."""
    inputs: Path | None = None
    """The user's inputs: an .npz file or a folder of .npy files, an array for each input of the model, whose first axis
    is the samples. Arrays named like outputs are the right answers. Left out: random."""
    reference: str = ""
    """The backend whose answers in fp32 are right. Empty: those of the model, computed operator by operator."""
    samples: Annotated[int, Ge(0)] = 0
    """Number of random samples; 0: 64, or fewer if they are large."""
    seed: Annotated[int, Ge(0)] = 0
    """The seed of random samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageModelOptions:
    """The language model, and its prompts."""

    model: Path | None = None
    """The Hugging Face folder: config.json, *.safetensors, and tokenizer.json if prompts are text."""
    inputs: Path | None = None
    """The user's prompts, JSON lines: each an object with ``prompt`` (text) or ``tokens`` (ids). An answer ends at an
    end token of the model. Left out: random ids, and all answers have the same length, since no end token may end one
    before; so speeds can be compared."""
    dims: str = ""
    """Sizes in tokens, comma-separated: ``prompt=16..128`` of random prompts (default 16..64), and ``answer=32`` of the
    longest answers (default 32)."""
    reference: str = ""
    """Not for language models: the reference is Hugging Face's ``generate`` in fp32, prompt by prompt, on the CPU."""
    samples: Annotated[int, Ge(0)] = 0
    """Number of random prompts; 0: 32."""
    compared: Annotated[int, Ge(1)] = 16
    """Number of prompts, the first ones, whose answers are compared with the reference's."""
    seed: Annotated[int, Ge(0)] = 0
    """The seed of random prompts."""
