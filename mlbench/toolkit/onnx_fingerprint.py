"""The identity of a graph's ONNX file: the cache key of files made from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlbench.contracts.graph import Graph
from mlbench.toolkit.files import file_sha256


def onnx_identity(graph: Graph, file: Path) -> Mapping[str, str]:
    """Return the graph's fingerprint and the file's hash, for the key of a cache.

    The file alone does not identify its weights: above 1.5 GiB they lie beside it, and two checkpoints of one
    architecture then give files of equal bytes. A fingerprint alone does not say in which precision the file is.
    """
    return {"fingerprint": graph.fingerprint, "file": file_sha256(file)}
