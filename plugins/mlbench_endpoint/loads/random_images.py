"""Images of random pixels as data URLs, for requests of a chat."""

from __future__ import annotations

import base64
import random
import struct
import zlib

_SQUARE = 8
"""Side of a square of one colour in pixels: noise of single pixels would make files of a megabyte."""

_PALETTE_BYTES = 3 * 256


def data_url(width: int, height: int, rng: random.Random) -> str:
    """Return a PNG of random coloured squares of eight pixels as a data URL.

    Args:
        width: in pixels; likewise the height.
        height: of the image.
        rng: colours and squares are drawn from it.
    """
    image = _png(width, height, rng)
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"


def _png(width: int, height: int, rng: random.Random) -> bytes:
    """Return an image of 8-bit palette colours. Source of the form: the PNG specification, sections 5 and 11."""
    across = -(-width // _SQUARE)
    rows = []
    for top in range(0, height, _SQUARE):
        squares = rng.randbytes(across)
        row = b"\0" + b"".join(bytes((colour,)) * _SQUARE for colour in squares)[:width]  # filter type 0: none
        rows.append(row * min(_SQUARE, height - top))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    pixels = zlib.compress(b"".join(rows), level=1)
    chunks = ((b"IHDR", header), (b"PLTE", rng.randbytes(_PALETTE_BYTES)), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
