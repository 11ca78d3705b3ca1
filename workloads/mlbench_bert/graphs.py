"""The network as a graph: Hugging Face's BERT with a span head, or the official ONNX file as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import Dim, Graph, TensorSpec
from mlbench.toolkit import ModuleGraph, OnnxFileGraph, build_seeded, fit_state, load_weights

if TYPE_CHECKING:
    import torch

    from mlbench.toolkit import Calibrate

RANDOM_SEED = 0
EXTRAS = r"bert\.pooler\..*|bert\.embeddings\.(position|token_type)_ids"
"""Tensors of the official state dict that do not affect answers: its pooler, and numbered positions."""

INPUTS = ("input_ids", "input_mask", "segment_ids")
OUTPUTS = ("start_logits", "end_logits")
OFFICIAL_ONNX_OUTPUTS = ("output_start_logits", "output_end_logits")

_BATCH = Dim(name="batch", smallest=1, usual=16, largest=1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """The sizes of a BERT; the defaults are BERT-large's."""

    vocabulary: int = 30522
    hidden: int = 1024
    layers: int = 24
    heads: int = 16
    feed_forward: int = 4096
    positions: int = 512


def build_network(architecture: Architecture) -> Any:
    """Return Hugging Face's `BertForQuestionAnswering` without dropout, freshly initialised as Hugging Face does."""
    from transformers import BertConfig, BertForQuestionAnswering

    config = BertConfig(
        vocab_size=architecture.vocabulary,
        hidden_size=architecture.hidden,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        intermediate_size=architecture.feed_forward,
        max_position_embeddings=architecture.positions,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForQuestionAnswering(config)


def load_network(architecture: Architecture, weights: Path, *, sha256: str = "", md5: str = "") -> Any:
    """Return the network with the weights of a Hugging Face state dict, which may hold more than it needs (a pooler).

    Raises:
        DataError: the file is missing, has another checksum, or lacks a tensor, or has one that is of another shape or
            that nothing reads.
    """
    import torch

    state = load_weights(weights, sha256=sha256, md5=md5)
    with torch.device("meta"):  # drawing 334 million random numbers to overwrite them takes a minute on a small machine
        network = build_network(architecture)
    network.load_state_dict(fit_state(state, network.state_dict(), origin=weights, extras=EXTRAS), assign=True)
    embeddings = network.bert.embeddings  # two buffers that no state dict holds
    embeddings.position_ids = torch.arange(architecture.positions)[None]
    embeddings.token_type_ids = torch.zeros_like(embeddings.position_ids)
    return network


def reader_module(network: Any) -> torch.nn.Module:
    """Return a module as the graph needs it: ids, mask, segments (B, T) int64 -> start, end logits (B, T) float32."""
    from torch import Tensor, nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, input_ids: Tensor, input_mask: Tensor, segment_ids: Tensor) -> tuple[Tensor, Tensor]:
            # An additive mask is the reference's own form, has no branch on data, and -10000 fits every number format.
            mask = (1 - input_mask)[:, None, None, :].to(self.network.dtype) * -10000.0
            hidden = self.network.bert(input_ids, attention_mask=mask, token_type_ids=segment_ids).last_hidden_state
            logits = self.network.qa_outputs(hidden)  # (B, T, 2)
            return logits[..., 0], logits[..., 1]

    return Reader()


def build_reader(  # noqa: PLR0913 - the checksum is one or the other
    architecture: Architecture,
    tokens: int,
    weights: Path,
    calibrate: Calibrate | None,
    *,
    sha256: str = "",
    md5: str = "",
) -> Graph:
    """Return the network with the weights of a file, which is read and verified when a backend asks for the module.

    Args:
        architecture: what the file holds.
        tokens: the longest window.
        weights: a Hugging Face state dict.
        calibrate: yields inputs for quantisation.
        sha256: its checksum; or
        md5: this one.
    """
    build = partial(load_network, architecture, weights, sha256=sha256, md5=md5)
    return _reader(build, tokens, fingerprint=sha256 or md5, calibrate=calibrate)


def random_reader(architecture: Architecture, tokens: int, calibrate: Calibrate | None) -> Graph:
    """Return the network with seeded weights, the same each time; the global generator stays as it was."""

    def build() -> Any:
        return build_seeded(lambda: build_network(architecture), seed=RANDOM_SEED)

    return _reader(build, tokens, fingerprint=f"seed {RANDOM_SEED}, {architecture}", calibrate=calibrate)


def _reader(build: Callable[[], Any], tokens: int, *, fingerprint: str, calibrate: Calibrate | None) -> Graph:
    shape = (_BATCH, Dim(name="tokens", smallest=1, usual=min(tokens, 192), largest=tokens))
    return ModuleGraph(
        "reader",
        inputs=tuple(TensorSpec(name=name, shape=shape, dtype="int64") for name in INPUTS),
        outputs=tuple(TensorSpec(name=name, shape=shape, dtype="float32") for name in OUTPUTS),
        build=lambda: reader_module(build()),
        fingerprint=fingerprint,
        calibrate=calibrate,
    )


def official_onnx_reader(file: Path, calibrate: Calibrate | None, *, md5: str) -> Graph:
    """Return MLCommons' fp32 ONNX checkpoint as it is, for 384 tokens."""
    shape = (_BATCH, 384)
    return OnnxFileGraph(
        "reader",
        file,
        md5=md5,
        inputs=tuple(TensorSpec(name=name, shape=shape, dtype="int64") for name in INPUTS),
        outputs=tuple(TensorSpec(name=name, shape=shape, dtype="float32") for name in OFFICIAL_ONNX_OUTPUTS),
        calibrate=calibrate,
        hint="Use a backend that runs ONNX files, or the weights model.pytorch.",
    )
