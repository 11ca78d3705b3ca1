"""Structured sparsity: zeros among each few weights of linear layers."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from mlbench import Transform, UsageError
from mlbench.toolkit import change_modules

if TYPE_CHECKING:
    import torch

    from mlbench import Calibration, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseOptions:
    """Which weights stay."""

    kept: Annotated[int, Ge(1), Le(63)] = 2
    """Weights that stay in each group, the largest by magnitude."""
    of: Annotated[int, Ge(2), Le(64)] = 4
    """Weights in a group, neighbours in a row."""


class Sparse(Transform):
    """Sets all but the largest of each few weights to zero, in the linear layers but for the one that gives logits.

    Source of the form: Mishra et al., Accelerating Sparse Deep Neural Networks, 2021.
    """

    name = "sparse"
    title = "sets the smallest weights of each few to zero, 2 of 4; no CPU kernel is faster for it"
    options = SparseOptions()

    def apply(self, model: Model, calibration: Calibration) -> Model:
        """Return a model with zeros among the weights of its linear layers."""
        kept, of = self.options.kept, self.options.of
        if kept >= of:
            raise UsageError(f"{self.text} leaves all weights as they are.", hint="Keep fewer than there are.")
        heads: weakref.WeakSet[Any] = weakref.WeakSet()

        def change(part: torch.nn.Module) -> None:
            import torch

            find_head = getattr(part, "get_output_embeddings", lambda: None)  # a language model, seen before its parts
            if (head := find_head()) is not None:
                heads.add(head)
            if isinstance(part, torch.nn.Linear) and part not in heads and part.in_features % of == 0:
                _zero_smallest(part.weight, kept, of)

        says = (
            f"of each {of} weights in a row of a linear layer {of - kept} are zero, by magnitude; stored and computed "
            "as dense weights, so this alone makes no backend faster on a CPU"
        )
        return change_modules(model, self, change, says=says)


def _zero_smallest(weight: torch.Tensor, kept: int, of: int) -> None:
    """Set all but the ``kept`` largest of each ``of`` weights to zero, in place; of equals the first ones stay."""
    import torch

    groups = weight.view(-1, of)
    order = torch.argsort(groups.abs(), dim=1, descending=True, stable=True)
    groups.scatter_(1, order[:, kept:], 0.0)
