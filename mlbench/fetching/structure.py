"""Whether a file of which no checksum is published is whole: its own parts must fit its length."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import BinaryIO

from mlbench.documents import open_regular, parse_json
from mlbench.fetching.digests import BLOCK_BYTES

_LONGEST_HEADER = 1 << 27


def check_structure(path: Path, name: str) -> str:
    """Return how a file was found to be whole: ``structure``, or ``first use`` for a form that is not known.

    Args:
        path: of the file.
        name: it will have; its ending says what form it should have.

    Raises:
        ValueError: it is cut short, too long, or not of that form.
    """
    suffix = Path(name).suffix.lower()
    if suffix not in _CHECKS:
        return "first use"
    with open_regular(path) as file:
        size_bytes = path.stat().st_size
        try:
            _CHECKS[suffix](file, size_bytes)
        except (struct.error, KeyError, TypeError, EOFError, zlib.error, zipfile.BadZipFile, AttributeError) as error:
            raise ValueError(f"it is not a {suffix} file ({type(error).__name__})") from None
    return "structure"


def _check_safetensors(file: BinaryIO, size_bytes: int) -> None:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > min(_LONGEST_HEADER, size_bytes - 8):
        raise ValueError("its header is longer than the file")
    header = parse_json(file.read(length).decode("utf-8"))
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    wanted = 8 + length + max(ends, default=0)
    if wanted != size_bytes:
        raise ValueError(f"its header describes {wanted} bytes, and it has {size_bytes}")


def _check_npy(file: BinaryIO, size_bytes: int) -> None:
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    wanted = file.tell() + prod(shape) * dtype.itemsize
    if wanted != size_bytes:
        raise ValueError(f"its header describes {wanted} bytes, and it has {size_bytes}")


def _check_zip(file: BinaryIO, size_bytes: int) -> None:
    with zipfile.ZipFile(file) as archive:
        if damaged := archive.testzip():
            raise ValueError(f"its member {damaged} is damaged")


def _check_gzip(file: BinaryIO, size_bytes: int) -> None:
    reader = zlib.decompressobj(wbits=31)
    while block := file.read(BLOCK_BYTES):
        while block:
            rest = reader.decompress(block, BLOCK_BYTES)
            block = reader.unconsumed_tail
            if not rest and not block:
                break
        if reader.eof and (reader.unused_data or file.read(1)):
            raise ValueError("something follows its end")
    if not reader.eof:
        raise ValueError("it is cut short")


def _check_jpeg(file: BinaryIO, size_bytes: int) -> None:
    begin = file.read(2)
    file.seek(max(0, size_bytes - 2))
    if begin != b"\xff\xd8" or file.read(2) != b"\xff\xd9":
        raise ValueError("it is not a whole JPEG picture")


def _check_json(file: BinaryIO, size_bytes: int) -> None:
    try:
        json.loads(file.read().decode("utf-8"))
    except RecursionError:
        raise ValueError("it nests too deep") from None


def _check_parquet(file: BinaryIO, size_bytes: int) -> None:
    begin = file.read(4)
    file.seek(max(0, size_bytes - 8))
    length, end = struct.unpack("<I4s", file.read(8))
    if begin != b"PAR1" or end != b"PAR1" or length > size_bytes - 12:
        raise ValueError("it is not a whole Parquet file")


_CHECKS: Mapping[str, Callable[[BinaryIO, int], None]] = {
    ".safetensors": _check_safetensors,
    ".npy": _check_npy,
    ".npz": _check_zip,
    ".zip": _check_zip,
    ".gz": _check_gzip,
    ".jpg": _check_jpeg,
    ".jpeg": _check_jpeg,
    ".json": _check_json,
    ".parquet": _check_parquet,
}
