"""Reads image files as arrays."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import DataError
from mlbench.system.documents import read_bytes, refusal

if TYPE_CHECKING:
    import numpy as np


_AGAIN = "Copy it again from the original data set."
_JPEG, _SCAN, _END = b"\xff\xd8", b"\xda", b"\xff\xd9"


def read_image(path: Path) -> np.ndarray:
    """Return an image file as (H, W, 3) uint8 RGB.

    Raises:
        DataError: the file is missing, truncated, or not an image.
    """
    content = read_bytes(path, what="image")
    try:
        return decode_image(content, str(path))
    except DataError as error:
        raise refusal(path, error.message, hint=error.hint) from None


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
        raise DataError(f"image is corrupt: {origin}.", hint=_AGAIN)
    if content.startswith(_JPEG) and not has_end(content):
        raise DataError(f"image is cut off: {origin} is a JPEG without its end.", hint=_AGAIN)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def has_end(jpeg: bytes) -> bool:
    """Return whether a JPEG has its end after its scan: one that was cut off is decoded with grey in its place.

    A picture for a preview, in a segment before the scan, has an end of its own. Other bytes may follow the end.
    """
    place = len(_JPEG)
    while jpeg[place : place + 1] == b"\xff" and jpeg[place + 1 : place + 2] != _SCAN:
        place += 2 + max(2, int.from_bytes(jpeg[place + 2 : place + 4], "big"))
    return jpeg.find(_END, place) >= 0
