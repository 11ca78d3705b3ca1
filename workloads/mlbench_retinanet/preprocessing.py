"""From an image file to the network's input.

Source: MLPerf Inference v4.1, vision/classification_and_detection, data set `openimages-800-retinanet`.
"""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np

from mlbench import DataError
from mlbench.toolkit import read_bytes


def read_image(path: Path) -> np.ndarray:
    """Return an image file as (H, W, 3) uint8 RGB.

    Raises:
        DataError: the file is missing, cut short, or no image.
    """
    return decode(read_bytes(path, what="image"), str(path))


def decode(content: bytes, origin: str) -> np.ndarray:
    """Return (H, W, 3) uint8 RGB, turned as the EXIF orientation says; grey and CMYK become RGB, alpha is dropped.

    Raises:
        DataError: this is no image, or a part of one; ``origin`` names it.
    """
    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR) if content else None
    except cv2.error:  # of more pixels than it takes
        image = None
    if image is None:
        raise DataError(f"image is corrupt: {origin}.", hint="Copy it again from the original data set.")
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def prepare(image: np.ndarray, image_hw: tuple[int, int]) -> np.ndarray:
    """Prepare (H, W, 3) uint8 RGB for the network: (3, height, width) float32 from 0 to 1, contiguous.

    The proportions are not kept. Resizing is bilinear, without a filter against aliasing, and in float: whole grey
    levels would move the result by up to half of one.
    """
    height, width = image_hw
    resized = cv2.resize(image.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(resized.transpose(2, 0, 1)) / np.float32(255)
