"""A graph that scores given tokens, by the network of a language model's prefill graph."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from mlbench.contracts.generation import SLOTS
from mlbench.contracts.graph import Graph, TensorSpec
from mlbench.contracts.precision import Precision
from mlbench.toolkit.capped_graph import CappedGraph
from mlbench.toolkit.module_graph import ModuleGraph

if TYPE_CHECKING:
    import torch


def score_graph(prefill: Graph, rows: int) -> Graph:
    """Return a graph of ``log_probabilities`` (rows, tokens): of ``next_ids``, each after the tokens before it.

    It takes ``next_ids`` (rows, tokens) where prefill takes ``last``. All else is prefill's, with what transforms
    changed in it: a backend compiles it as it does that one.

    Args:
        prefill: a graph of `language_graphs`, as it is or transformed.
        rows: of a call, at most.
    """
    pieces = next(spec for spec in prefill.inputs if spec.name == "input_ids")
    next_ids = TensorSpec(name="next_ids", shape=pieces.shape, dtype="int64")

    def at(precision: Precision) -> torch.nn.Module:
        from mlbench.toolkit.language.decoder_modules import Prefill, TokenScores

        module = prefill.module() if precision is Precision.FP32 else prefill.module_at(precision)
        if not isinstance(module, Prefill):
            raise TypeError(f"the prefill graph has a {type(module).__name__}, whose logits are not known")
        return TokenScores(module)

    graph = ModuleGraph(
        "score",
        inputs=tuple(next_ids if spec.name == "last" else spec for spec in prefill.inputs),
        outputs=(TensorSpec(name="log_probabilities", shape=pieces.shape, dtype="float32"),),
        state=prefill.state,
        build=lambda: at(Precision.FP32),
        build_at=at,
        fingerprint=hashlib.sha256(f"{prefill.fingerprint}, score".encode()).hexdigest(),
        code=prefill.code,
    )
    return CappedGraph(graph, {"rows": rows, SLOTS: rows})
