"""A small language model whose answers all have the same length, and prompts for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench.contracts.generation import DECODE, LENGTH, PREFILL, SLOTS, Decoding, Prompt
from mlbench.contracts.graph import Dim, TensorSpec
from mlbench.contracts.model import Model
from mlbench.toolkit import ModuleGraph, StoredSamples, build_seeded, file_sha256
from mlbench.toolkit.language import TokenProgram

if TYPE_CHECKING:
    import torch

VOCABULARY = 64
ANSWER_TOKENS = 12
"""Length of each answer: there is no end token in the vocabulary."""

_LONGEST = 48
_ROWS = 8
_HEADS = 2
_HEAD_SIZE = 8
_SEED = 6
_PROMPTS = 8

_DECODING = Decoding(end_tokens=(VOCABULARY,), max_new_tokens=ANSWER_TOKENS, longest=_LONGEST)


class Prompts(StoredSamples[Prompt]):
    """Eight prompts of different lengths."""

    def __init__(self) -> None:
        random = np.random.default_rng(8)
        prompts = [Prompt(tokens=random.integers(1, VOCABULARY, 5 + 2 * number)) for number in range(_PROMPTS)]
        super().__init__(prompts, "conformance-prompts-1")


def generating_model() -> Model:
    """Return two graphs under a program that takes the likeliest token each time."""
    sources = ("networks.py", "known_generation.py")
    fingerprint = "-".join(file_sha256(Path(__file__).with_name(name))[:16] for name in sources)
    pieces = TensorSpec(name="input_ids", shape=(_dim("rows", _ROWS), _dim("tokens", _LONGEST)), dtype="int64")
    inputs = {
        PREFILL: (pieces, *_per_row("positions", "slots", "last")),
        DECODE: _per_row("input_ids", "positions"),
    }
    graphs = {name: _graph(name, given, fingerprint) for name, given in inputs.items()}
    return Model(
        name="conformance-generation",
        graphs=graphs,
        program=TokenProgram(_DECODING),
        weights_fingerprint=fingerprint,
    )


def _graph(name: str, inputs: Sequence[TensorSpec], fingerprint: str) -> ModuleGraph:
    rows, choices = _dim("rows", _ROWS), _DECODING.choices
    state = (_dim(SLOTS, _ROWS), _HEADS, _dim(LENGTH, _LONGEST), _HEAD_SIZE)
    return ModuleGraph(
        name,
        inputs=(*inputs, TensorSpec(name="columns", shape=(_dim("span", _LONGEST),), dtype="int64")),
        outputs=(
            TensorSpec(name="tokens", shape=(rows, choices), dtype="int64"),
            TensorSpec(name="log_probabilities", shape=(rows, choices), dtype="float32"),
        ),
        state=tuple(TensorSpec(name=part, shape=state, dtype="float32") for part in ("keys", "values")),
        build=lambda: _build(name),
        fingerprint=fingerprint,
    )


def _build(name: str) -> torch.nn.Module:
    from mlbench.conformance.networks import ReadingNetwork, SpeakingNetwork, SteppingNetwork

    kind = ReadingNetwork if name == PREFILL else SteppingNetwork
    return build_seeded(
        lambda: SpeakingNetwork(kind(VOCABULARY, VOCABULARY, _LONGEST, _HEADS, _HEAD_SIZE), _DECODING.choices),
        seed=_SEED,
    )


def _dim(name: str, largest: int) -> Dim:
    return Dim(name=name, smallest=1, usual=max(1, largest // 2), largest=largest)


def _per_row(*names: str) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name=name, shape=(_dim("rows", _ROWS),), dtype="int64") for name in names)
