"""From an image file to the network's input.

Source: MLPerf Inference v4.1, vision/classification_and_detection, data set `openimages-800-retinanet`.
"""

from __future__ import annotations

import cv2
import numpy as np


def prepare(image: np.ndarray, image_hw: tuple[int, int]) -> np.ndarray:
    """Prepare (H, W, 3) uint8 RGB for the network: (3, height, width) float32 from 0 to 1, contiguous.

    The proportions are not kept. Resizing is bilinear, without a filter against aliasing, and in float: whole grey
    levels would move the result by up to half of one.
    """
    height, width = image_hw
    resized = cv2.resize(image.astype(np.float32), (width, height), interpolation=cv2.INTER_LINEAR)
    return np.ascontiguousarray(resized.transpose(2, 0, 1)) / np.float32(255)
