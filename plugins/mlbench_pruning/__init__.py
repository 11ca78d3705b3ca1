"""Transforms that leave parts of a network out: layers of a language model, and weights of linear layers."""

from __future__ import annotations

from mlbench import Transform, hookimpl


@hookimpl
def mlbench_transforms() -> list[Transform]:
    """Return both transforms."""
    from mlbench_pruning.layers import PruneLayers
    from mlbench_pruning.sparsity import Sparse

    return [PruneLayers(), Sparse()]
