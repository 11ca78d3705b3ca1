"""Operators of a session by provider: unsupported ones silently fall back to the CPU."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from mlbench import GraphError
from mlbench_onnxruntime.providers import CPU, Place

RECORDING = "session.record_ep_graph_assignment_info"
"""The setting that makes a session report it."""

PRODUCTS = frozenset(
    {"Attention", "Conv", "ConvTranspose", "Gemm", "GroupQueryAttention", "MatMul", "MultiHeadAttention"}
)
"""Operators that take most of the time. Shape arithmetic is faster on the CPU."""

logger = logging.getLogger(__name__)

Operators = Mapping[str, Mapping[str, int]]
"""Number of operators of each kind, by provider."""


def operators_by_provider(session: Any) -> Operators:
    """Return the placement of operators after a session's optimisations; empty if ONNX Runtime is too old."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return {}
    counts: dict[str, Counter[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        counts.setdefault(part.ep_name, Counter()).update(node.op_type for node in part.get_nodes())
    return {name: dict(found) for name, found in counts.items()}


def check_placement(place: Place, graph: str, found: Operators) -> None:
    """Warn of products that a device leaves to the CPU.

    Raises:
        GraphError: the device runs no operator.
    """
    if place.provider == CPU or not found:
        return
    if set(found) == {CPU}:
        raise GraphError(
            f"{place.provider} runs no operator of graph {graph}: all fell back to {CPU}.",
            hint="Choose another precision or backend.provider.",
        )
    left = {kind: count for kind, count in found.get(CPU, {}).items() if kind.removeprefix("QLinear") in PRODUCTS}
    if left:
        listed = ", ".join(f"{count} {kind}" for kind, count in sorted(left.items()))
        logger.warning("%s leaves %s of graph %s to the CPU", place.provider, listed, graph)
