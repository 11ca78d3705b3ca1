"""The optimiser Muon in fp32: torch's computes in bf16, for which many processors need ten times as long."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

_MOMENTUM, _ROUNDS = 0.95, 5
_A, _B, _C = 3.4445, -4.775, 2.0315
"""Those of torch's Muon."""


class Fp32Muon(torch.optim.Optimizer):
    """Steps along the momentum of each matrix with all of its singular values made nearly one, as torch's Muon does.

    Steps are as long as AdamW's are.
    """

    def __init__(self, matrices: Iterable[torch.nn.Parameter], *, lr: float, weight_decay: float) -> None:
        """Store the matrices, the learning rate and the share of them that a step of rate 1 would take away."""
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Move each matrix that has a gradient."""
        for group in self.param_groups:
            for matrix in group["params"]:
                if matrix.grad is not None:
                    momentum = self.state[matrix].setdefault("momentum", torch.zeros_like(matrix))
                    momentum.lerp_(matrix.grad, 1 - _MOMENTUM)
                    step = _orthogonal(matrix.grad.lerp(momentum, _MOMENTUM))
                    matrix.mul_(1 - group["lr"] * group["weight_decay"])
                    matrix.add_(step, alpha=-group["lr"] * 0.2 * max(matrix.shape) ** 0.5)


def _orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return a matrix with the singular vectors of another and singular values near one, by Newton and Schulz."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    found = matrix.T if is_tall else matrix
    found = found / found.norm().clamp(min=1e-7)
    for _ in range(_ROUNDS):
        gram = found @ found.T
        found = torch.addmm(found, torch.addmm(gram, gram, gram, beta=_B, alpha=_C), found, beta=_A)
    return found.T if is_tall else found
