"""The network as a function of state, and the arithmetic before and after it; all but the network is fp32.

State is volumes in blocks of half a window, (slots, 1, h, h, h), and the sums of their logits, (slots, classes, h, h,
h), both float32. A window is eight blocks, the last axis fastest.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from mlbench_unet3d.sliding_window import OCTANTS


class Loader(nn.Module):
    """Writes blocks (B, h, h, h) to slots (B,), whose sums begin at zero."""

    def forward(self, blocks: Tensor, places: Tensor, volumes: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the places."""
        volumes[places] = blocks.unsqueeze(1)
        sums[places] = torch.zeros_like(sums[places])
        return places.int(), volumes, sums


class WindowedNetwork(nn.Module):
    """Adds the weighted logits of windows, given as their blocks' slots (B, 8), to sums."""

    weights: Tensor

    def __init__(self, network: nn.Module, weights: np.ndarray) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("weights", torch.from_numpy(weights.copy()))

    def forward(self, places: Tensor, volumes: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first slot of each window.

        Where windows of a call share a block, an earlier one has it nearer to its end: from the last octant to the
        first, sums add up in the order of windows, and no addition writes to a slot twice.
        """
        count, classes, half = places.shape[0], sums.shape[1], sums.shape[2]
        blocks = volumes[places.flatten()].reshape(count, 2, 2, 2, half, half, half)
        image = blocks.permute(0, 1, 4, 2, 5, 3, 6).reshape(count, 1, 2 * half, 2 * half, 2 * half)
        weighted = self.network(image).float() * self.weights
        parts = weighted.reshape(count, classes, 2, half, 2, half, 2, half).permute(2, 4, 6, 0, 1, 3, 5, 7)
        octants = parts.reshape(OCTANTS, count, classes, half, half, half)
        for octant in reversed(range(OCTANTS)):
            slots = places[:, octant]
            sums[slots] = sums[slots] + octants[octant]
        return places[:, 0].int(), volumes, sums


class Labeller(nn.Module):
    """Reads the class with the largest sum, the first of equals, in slots (B,)."""

    def forward(self, places: Tensor, volumes: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return labels (B, h, h, h) uint8, and whether all sums of a block are numbers."""
        found = sums[places]
        has_nan = torch.isnan(found).flatten(1).any(dim=1)
        return found.argmax(dim=1).to(torch.uint8), (~has_nan).int(), volumes, sums
