"""Where the network looks: the boxes that its answers are offsets of, for the official network and its small copy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ASPECT_RATIOS = (0.5, 1.0, 2.0)
"""Height over width."""

SCALES = (1.0, 2 ** (1 / 3), 2 ** (2 / 3))

PER_PLACE = len(ASPECT_RATIOS) * len(SCALES)
"""Anchors at each place of a feature map."""

FINEST_STRIDE = 8
"""Pixels between the places of the first level; it doubles from level to level."""


def map_shapes(image_hw: tuple[int, int], levels: int) -> list[tuple[int, int]]:
    """Return (height, width) of the network's feature maps for an image, the finest first."""
    height, width = image_hw
    strides = [FINEST_STRIDE << level for level in range(levels)]
    return [(-(-height // stride), -(-width // stride)) for stride in strides]


def anchors_by_level(
    image_hw: tuple[int, int], shapes: Sequence[tuple[int, int]], bases: Sequence[int]
) -> list[np.ndarray]:
    """Return the anchors of each level, (places * 9, 4) float32: x1, y1, x2, y2 in pixels, row by row of the map.

    Sizes are truncated and cell anchors rounded to whole pixels, and the grid step is the image's size over the map's,
    rounded down: 61 and 114 where the strides are 64 and 128. All of it belongs to the official checkpoints.

    Args:
        image_hw: height and width of the image, pixels.
        shapes: height and width of each feature map.
        bases: the smallest anchor size of each level.
    """
    import torch
    from torchvision.models.detection.anchor_utils import AnchorGenerator

    sizes = tuple(tuple(int(base * scale) for scale in SCALES) for base in bases)
    generator = AnchorGenerator(sizes, (ASPECT_RATIOS,) * len(sizes))
    steps = [[torch.tensor(side // places) for side, places in zip(image_hw, shape, strict=True)] for shape in shapes]
    return [level.numpy() for level in generator.grid_anchors([list(shape) for shape in shapes], steps)]
