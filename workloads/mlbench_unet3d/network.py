"""The 3D U-Net, with the official names in its state dict.

Source: MLPerf Inference v4.1, vision/medical_imaging/3d-unet-kits19.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class UNet3D(nn.Module):
    """Volumes (B, 1, W, W, W) to logits (B, classes, W, W, W); W is a multiple of 2 to the number of filters."""

    def __init__(self, filters: Sequence[int], classes: int) -> None:
        """Make the layers, initialised as torch does.

        Args:
            filters: channels on the way down, level by level; the bottleneck has as many as the last.
            classes: how many logits a voxel gets.
        """
        super().__init__()
        way_up = (filters[-1], *filters[::-1])
        self.input_block = Block(1, filters[0])
        self.downsample = nn.ModuleList(Block(inputs, outputs, stride=2) for inputs, outputs in pairwise(filters))
        self.bottleneck = Block(filters[-1], filters[-1], stride=2)
        self.upsample = nn.ModuleList(UpBlock(inputs, outputs) for inputs, outputs in pairwise(way_up))
        self.output = Output(filters[0], classes)

    def forward(self, image: Tensor) -> Tensor:
        """Return the logits of a batch."""
        x: Tensor = self.input_block(image)
        skips = [x]
        for block in self.downsample:
            x = block(x)
            skips.append(x)
        x = self.bottleneck(x)
        for block in self.upsample:
            x = block(x, skips.pop())
        logits: Tensor = self.output(x)
        return logits


class Block(nn.Module):
    """Two convolutions; a stride of 2, in the first, halves the sides."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = _convolution(inputs, outputs, stride)
        self.conv2 = _convolution(outputs, outputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolutions' output for a batch."""
        out: Tensor = self.conv2(self.conv1(x))
        return out


class UpBlock(nn.Module):
    """Doubles the sides, and joins the features of the way down at that size."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.upsample_conv = nn.Sequential(nn.ConvTranspose3d(inputs, outputs, 2, stride=2))
        self.conv1 = _convolution(2 * outputs, outputs, 1)
        self.conv2 = _convolution(outputs, outputs, 1)

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Return the convolutions' output for a batch and its skip connection."""
        out: Tensor = self.conv2(self.conv1(torch.cat([self.upsample_conv(x), skip], dim=1)))
        return out


class Output(nn.Module):
    """Logits of each voxel."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv3d(inputs, classes, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.conv(x)
        return logits


class ChannelNorm(nn.InstanceNorm3d):
    """Instance norm, computed as a group norm with a channel to a group: equal, and faster with channels innermost."""

    def forward(self, x: Tensor) -> Tensor:
        """Return each channel of each volume with mean 0 and deviation 1, times weight, plus bias."""
        if torch.compiler.is_exporting():  # ONNX has an operator for instance norm; a group norm becomes four
            return super().forward(x)
        return nn.functional.group_norm(x, self.num_features, self.weight, self.bias, self.eps)


def _convolution(inputs: int, outputs: int, stride: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        ChannelNorm(outputs, affine=True),
        nn.ReLU(inplace=True),
    )
