"""From an image file to the network's input: the two official recipes, which belong to different checkpoints.

Feeding a checkpoint by the other recipe gives plausible, lower accuracy.

Source: MLPerf Inference v4.1, vision/classification_and_detection, `imagenet` and `imagenet_pytorch`.
"""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image

IMAGE_SIZE = 224
SHORTER_SIDE = 256

ONNX_MEAN = np.array([123.68, 116.78, 103.94], dtype=np.float32)
"""RGB, in grey levels 0 .. 255."""

TORCHVISION_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
TORCHVISION_STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
"""RGB, of values scaled to 0 .. 1."""


def prepare_for_onnx(image: np.ndarray) -> np.ndarray:
    """Prepare (H, W, 3) uint8 RGB for the official TensorFlow and ONNX checkpoints: (3, 224, 224) float32."""
    return _channels_first(crop_for_onnx(image) - ONNX_MEAN)


def crop_for_onnx(image: np.ndarray) -> np.ndarray:
    """Shrink the shorter side to 256 by area, then cut out the middle: (224, 224, 3) uint8."""
    resized = cv2.resize(image, size_after_resize(image, SHORTER_SIDE), interpolation=cv2.INTER_AREA)
    height, width = resized.shape[:2]
    return _cut(resized, top=(height - IMAGE_SIZE) // 2, left=(width - IMAGE_SIZE) // 2, size=IMAGE_SIZE)


def prepare_for_torchvision(image: np.ndarray, shorter_side: int = SHORTER_SIDE, size: int = IMAGE_SIZE) -> np.ndarray:
    """Prepare (H, W, 3) uint8 RGB for torchvision's checkpoints: (3, size, size) float32."""
    scaled = crop_for_torchvision(image, shorter_side, size) / np.float32(255)
    return _channels_first((scaled - TORCHVISION_MEAN) / TORCHVISION_STD)


def pixels_for_torchvision(image: np.ndarray, shorter_side: int = SHORTER_SIDE, size: int = IMAGE_SIZE) -> np.ndarray:
    """Prepare the same pixels, which the network normalises by itself: (3, size, size) uint8."""
    return _channels_first(crop_for_torchvision(image, shorter_side, size))


def crop_for_torchvision(image: np.ndarray, shorter_side: int = SHORTER_SIDE, size: int = IMAGE_SIZE) -> np.ndarray:
    """Resize the shorter side by Pillow's bilinear filter, then cut out the middle: (size, size, 3) uint8."""
    resized = image
    if min(image.shape[:2]) != shorter_side:
        picture = Image.fromarray(image).resize(size_after_resize(image, shorter_side), Image.Resampling.BILINEAR)
        resized = np.asarray(picture)
    height, width = resized.shape[:2]
    # round() rounds half to even, as torchvision's centre crop does.
    return _cut(resized, top=round((height - size) / 2), left=round((width - size) / 2), size=size)


def size_after_resize(image: np.ndarray, shorter_side: int) -> tuple[int, int]:
    """Return (width, height) with the proportions kept; the longer side is truncated to whole pixels."""
    height, width = image.shape[:2]
    if width < height:
        return shorter_side, int(shorter_side * height / width)
    return int(shorter_side * width / height), shorter_side


def _cut(image: np.ndarray, *, top: int, left: int, size: int) -> np.ndarray:
    return image[top : top + size, left : left + size]


def _channels_first(image: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(image.transpose(2, 0, 1))
