"""The network that says which digit, in which colours, a mini picture shows; FID compares its features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mlbench_stable_diffusion_xl.digits import COLOURS, WORDS

FEATURES = 64


class Judge(nn.Module):
    """Pictures (B, 3, 32, 32) uint8 to logits (B, 24): ten digits, seven colours of the figure, seven of the ground."""

    SIZES = (len(WORDS), len(COLOURS), len(COLOURS))

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_halving(3, 16),
            *_halving(16, 32),
            *_halving(32, 48),
            nn.Flatten(),  # where the ink is matters, so nothing is averaged over places
            nn.Linear(48 * 4 * 4, FEATURES),
            nn.GELU(),
        )
        self.head = nn.Linear(FEATURES, sum(self.SIZES))

    def features(self, images: Tensor) -> Tensor:
        """Return what the last layer sees: (B, 64) float32."""
        found: Tensor = self.body(images.float() / 127.5 - 1)
        return found

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.head(self.features(images))
        return logits


def digits_seen(judge: Judge, images: Tensor) -> Tensor:
    """Return which digit each picture (B, 3, 32, 32) uint8 shows."""
    with torch.inference_mode():
        logits: Tensor = judge(images)
    return logits[:, : len(WORDS)].argmax(1)


def _halving(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.GroupNorm(4, outputs), nn.GELU()
