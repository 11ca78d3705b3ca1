"""From an image file to an array."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.documents import read_bytes
from mlbench.errors import DataError

if TYPE_CHECKING:
    import numpy as np


def read_image(path: Path) -> np.ndarray:
    """Return an image file as (H, W, 3) uint8 RGB.

    Raises:
        DataError: the file is missing, truncated, or not an image.
    """
    return decode_image(read_bytes(path, what="image"), str(path))


def decode_image(content: bytes, origin: str) -> np.ndarray:
    """Return (H, W, 3) uint8 RGB, turned as the EXIF orientation says; grey and CMYK become RGB, alpha is dropped.

    Raises:
        DataError: this is not an image, or is truncated; ``origin`` names it.
    """
    import cv2
    import numpy as np

    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR) if content else None
    except cv2.error:  # of more pixels than it takes
        image = None
    if image is None:
        raise DataError(f"image is corrupt: {origin}.", hint="Copy it again from the original data set.")
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
