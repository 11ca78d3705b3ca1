"""A language model's head with all that its class does to logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class WholeHead(nn.Module):
    """A head, then the scale and the cap of its logits."""

    def __init__(self, head: Any, *, scale: float, cap: float) -> None:
        """Store them; a cap of 0 is none."""
        super().__init__()
        self.head, self.scale, self.cap = head, scale, cap

    def forward(self, hidden: Tensor) -> Tensor:
        """Return logits, (..., vocabulary)."""
        logits: Tensor = self.head(hidden) * self.scale
        return self.cap * torch.tanh(logits / self.cap) if self.cap else logits
