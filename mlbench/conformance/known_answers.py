"""Test inputs for backends: two small graphs with known answers, and a dataset and a program around one of them.

Everything is seeded, and the answers are the torch modules' own. Any two rows of an answer lie further apart than what
the coarsest precision allows, so a row in the wrong place cannot be mistaken for rounding (a test holds this).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mlbench.contracts.graph import Dim, Executable, TensorSpec
from mlbench.contracts.model import BatchProgram, Model
from mlbench.contracts.reply_spec import ReplySpec
from mlbench.toolkit import LoadedSamples, ModuleGraph, build_seeded, file_sha256, host_array, pad_rows

if TYPE_CHECKING:
    import torch

LARGEST_BATCH = 8
"""MultiStream's query."""

MOST_ROWS = 65
"""What the graphs are prepared for: one more than fills any usual tile."""

_BATCH = Dim(name="batch", smallest=1, usual=4, largest=MOST_ROWS)
_TOKENS = Dim(name="tokens", smallest=4, usual=12, largest=24)
_VOCABULARY = 64
_CLASSES = 10
_SEEDS = range(12)
"""Seeds of the inputs used by the checks."""

Sizes = Mapping[str, int]
"""A size for each varying dimension, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownGraph:
    """A graph, a way to make inputs for it, and the sizes worth trying."""

    graph: ModuleGraph
    make_inputs: Callable[[Sizes, np.random.Generator], dict[str, np.ndarray]]
    sizes: Sequence[Sizes]
    """Smallest, usual, a query's, odd ones between, and largest."""

    def inputs(self, sizes: Sizes, *, seed: int) -> dict[str, np.ndarray]:
        """Return inputs of these sizes; the same for the same seed."""
        return self.make_inputs(sizes, np.random.default_rng(seed))

    def compute_outputs(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return what the torch module makes of these inputs."""
        import torch

        with torch.inference_mode():
            outputs = _module(self.graph)(*(torch.tensor(inputs[spec.name]) for spec in self.graph.inputs))
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        return {spec.name: output.numpy() for spec, output in zip(self.graph.outputs, several, strict=True)}


def image_graph() -> KnownGraph:
    """Return a small convolutional network: (batch, 3, 16, 16) float32 to (batch, 10) float32."""
    graph = ModuleGraph(
        "image",
        inputs=(TensorSpec(name="images", shape=(_BATCH, 3, 16, 16), dtype="float32", layout="NCHW"),),
        outputs=(TensorSpec(name="logits", shape=(_BATCH, 10), dtype="float32"),),
        build=_build_image_network,
        fingerprint=_source_hash(),
        calibrate=lambda: _calibration(image_graph()),
    )
    sizes = [{"batch": batch} for batch in (1, 4, LARGEST_BATCH, 3, 7, MOST_ROWS)]
    return KnownGraph(graph=graph, make_inputs=_make_images, sizes=sizes)


def token_graph() -> KnownGraph:
    """Return a small attention network: ids and mask (batch, tokens) to scores per class and a logit per token."""
    graph = ModuleGraph(
        "tokens",
        inputs=(
            TensorSpec(name="ids", shape=(_BATCH, _TOKENS), dtype="int64"),
            TensorSpec(name="mask", shape=(_BATCH, _TOKENS), dtype="int64"),
        ),
        outputs=(
            TensorSpec(name="scores", shape=(_BATCH, _CLASSES), dtype="float32"),
            TensorSpec(name="token_logits", shape=(_BATCH, _TOKENS), dtype="float32"),
        ),
        build=_build_token_network,
        fingerprint=_source_hash(),
        calibrate=lambda: chain(_calibration(token_graph()), _singly(TokenLists().lists)),
    )
    tried = ((1, 4), (4, 12), (LARGEST_BATCH, 24), (3, 7), (1, 23), (MOST_ROWS, 9))
    sizes = [{"batch": batch, "tokens": tokens} for batch, tokens in tried]
    return KnownGraph(graph=graph, make_inputs=_make_tokens, sizes=sizes)


def reference_graphs() -> tuple[KnownGraph, KnownGraph]:
    """Return both graphs."""
    return image_graph(), token_graph()


class TokenLists(LoadedSamples[np.ndarray]):
    """Twelve token lists of different lengths, in no order of length, and further ones that are drawn anew."""

    def __init__(self, new: int = 0) -> None:
        """Make the lists; ``new`` more have the indices from ``count`` on, and are loaded."""
        super().__init__(count=12, fingerprint="conformance-token-lists-1")
        random = np.random.default_rng(5)
        lengths = [9, 24, 4, 15, 7, 21, 5, 12, 18, 6, 23, 10]
        self.lists = [random.integers(1, _VOCABULARY, length, dtype=np.int64) for length in lengths]
        random = np.random.default_rng(draw_seed())
        self.lists += [random.integers(1, _VOCABULARY, lengths[n % 12], dtype=np.int64) for n in range(new)]
        self.load(range(self.count, len(self.lists)))

    def make(self, indices: Sequence[int]) -> list[np.ndarray]:
        """Return these lists: (tokens,) int64 each."""
        return [self.lists[index] for index in indices]


class Scoring(BatchProgram):
    """Pads a batch of token lists to its longest and returns the scores: (batch, classes) float32."""

    reply = ReplySpec(dtype="float32", shape=(_CLASSES,))

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the scores of each list."""
        longest = max(map(len, samples))
        mask = [np.ones(len(sample), dtype=np.int64) for sample in samples]
        inputs = {"ids": pad_rows(samples, length=longest), "mask": pad_rows(mask, length=longest)}
        return host_array(graphs["tokens"](inputs)["scores"])

    def length(self, sample: Any) -> int:
        """Return the number of tokens."""
        return len(sample)


class Poisoned(Scoring):
    """A program that fails on one sample of the dataset, known by its length."""

    LENGTH = 15
    INDEX = 3

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return the scores of each list, or raise where the poisoned one is among them."""
        if any(len(sample) == self.LENGTH for sample in samples):
            raise ValueError("poisoned sample")
        return super().run(samples, graphs)


def scoring_model(program: BatchProgram | None = None) -> Model:
    """Return the token graph under a program; `Scoring` unless another is given."""
    return Model(
        name="conformance",
        graphs={"tokens": token_graph().graph},
        program=program or Scoring(),
        weights_fingerprint=_source_hash(),
    )


@cache
def reference_scores() -> np.ndarray:
    """Return the right reply to each sample: (samples, classes) float32."""
    return scores_of(TokenLists().lists)


def scores_of(lists: Sequence[np.ndarray]) -> np.ndarray:
    """Return the right replies to token lists, computed one at a time: (lists, classes) float32."""
    return np.concatenate([token_graph().compute_outputs(inputs)["scores"] for inputs in _singly(lists)])


def draw_seed() -> int:
    """Return another number each time: content that is made from it was never answered before, in no process."""
    return int.from_bytes(os.urandom(6), "little")


@cache
def _source_hash() -> str:
    """Return a hash of what makes the weights and the calibration inputs."""
    return "-".join(file_sha256(Path(__file__).with_name(name))[:16] for name in ("networks.py", "known_answers.py"))


def _make_images(sizes: Sizes, random: np.random.Generator) -> dict[str, np.ndarray]:
    return {"images": random.standard_normal((sizes["batch"], 3, 16, 16), dtype=np.float32)}


def _make_tokens(sizes: Sizes, random: np.random.Generator) -> dict[str, np.ndarray]:
    shape = (sizes["batch"], sizes["tokens"])
    lengths = random.integers(2, sizes["tokens"], size=sizes["batch"], endpoint=True)
    lengths[0] = sizes["tokens"]
    mask = (np.arange(sizes["tokens"]) < lengths[:, None]).astype(np.int64)
    return {"ids": random.integers(1, _VOCABULARY, shape, dtype=np.int64) * mask, "mask": mask}


def _calibration(known: KnownGraph) -> Iterator[dict[str, np.ndarray]]:
    """Yield the very inputs of the checks: on trial is the compiler, and not the choice of a calibration set."""
    for seed in _SEEDS:
        for sizes in known.sizes:
            yield known.inputs(sizes, seed=seed)


def _singly(lists: Sequence[np.ndarray]) -> Iterator[dict[str, np.ndarray]]:
    for tokens in lists:
        yield {"ids": tokens[None], "mask": np.ones_like(tokens[None])}


@cache
def _module_of(name: str) -> torch.nn.Module:
    return next(known.graph.module() for known in reference_graphs() if known.graph.name == name)


def _module(graph: ModuleGraph) -> torch.nn.Module:
    return _module_of(graph.name)


def _build_image_network() -> torch.nn.Module:
    from mlbench.conformance.networks import ImageNetwork

    return build_seeded(ImageNetwork, seed=1)


def _build_token_network() -> torch.nn.Module:
    from mlbench.conformance.networks import TokenNetwork

    return build_seeded(lambda: TokenNetwork(_VOCABULARY, _CLASSES), seed=3)
