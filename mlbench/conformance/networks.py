"""The torch modules behind the kit's graphs: small, untrained, seeded; outputs of order one to ten, as logits are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class ImageNetwork(nn.Module):
    """Two strided convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.last = nn.Linear(256, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Turn (B, 3, 16, 16) into logits (B, 10)."""
        hidden = torch.relu(self.second(torch.relu(self.first(images))))
        logits: Tensor = self.last(hidden.flatten(1))
        return 20 * logits


class TokenNetwork(nn.Module):
    """An embedding, one head of attention over unmasked tokens, and two outputs."""

    def __init__(self, vocabulary: int, classes: int, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.score = nn.Linear(width, classes, bias=False)
        self.mark = nn.Linear(width, 1)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Turn ids and mask (B, T) into scores (B, classes) and token logits (B, T)."""
        weight = mask.to(torch.float32)
        embedded = self.embedding(ids)
        affinity = self.query(embedded) @ self.key(embedded).transpose(1, 2) / 4  # (B, T, T)
        affinity = affinity + (weight[:, None, :] - 1) * 1e4
        attended = torch.softmax(affinity, dim=-1) @ self.value(embedded)
        hidden = embedded + attended  # (B, T, width)
        mean = (hidden * weight[:, :, None]).sum(1) / weight.sum(1, keepdim=True)
        scores: Tensor = self.score(mean)
        return 12 * scores, 4 * self.mark(hidden).squeeze(-1)


def seeded(build: Callable[[], nn.Module], *, seed: int) -> nn.Module:
    """Return a module with weights drawn from a seed; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build().eval()
