"""Whether a file of which no checksum is published is whole: its own parts must fit its length."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from mlbench.fetching.digests import BLOCK_BYTES
from mlbench.system.documents import Budget, Meter, foreign, open_regular
from mlbench.system.documents.archives import open_zip, read_member
from mlbench.system.documents.headers import npy_bytes, stored_tensors

MOST_RATIO = 200
"""Bytes that come out of a byte of an archive; text packs to a tenth, zeros to a thousandth."""

_SLACK_BYTES, _LONGEST_JSON = 1 << 26, 1 << 31


def check_structure(path: Path, name: str) -> str:
    """Return how a file was verified: ``structure``, or ``first use`` for an unknown format.

    Args:
        path: of the file.
        name: it will have; its ending says what form it should have.

    Raises:
        DataError: it is cut short, too long, or not of that form.
        OSError: it cannot be opened.
    """
    suffix = Path(name).suffix.lower()
    if suffix not in _CHECKS:
        return "first use"
    with open_regular(path) as file:
        size_bytes = path.stat().st_size
        budget = Budget(bytes=size_bytes * MOST_RATIO + _SLACK_BYTES)
        with foreign(Path(name).name, f"is not a whole {suffix} file", budget=budget, path=path) as meter:
            _CHECKS[suffix](file, size_bytes, meter)
    return "structure"


def _check_safetensors(file: BinaryIO, size_bytes: int, meter: Meter) -> None:
    tensors = stored_tensors(file, size_bytes)
    _check_length(max((each.end for each in tensors.values()), default=file.tell()), size_bytes)


def _check_npy(file: BinaryIO, size_bytes: int, meter: Meter) -> None:
    _check_length(npy_bytes(file), size_bytes)


def _check_length(wanted: int, size_bytes: int) -> None:
    if wanted != size_bytes:
        raise ValueError(f"its header describes {wanted} bytes, and it has {size_bytes}")


def _check_zip(file: BinaryIO, size_bytes: int, meter: Meter) -> None:
    with open_zip(file, meter) as archive:
        for member in archive.infolist():
            for _ in read_member(archive, member, meter):
                pass


def _check_gzip(file: BinaryIO, size_bytes: int, meter: Meter) -> None:
    reader = zlib.decompressobj(wbits=31)
    while block := file.read(BLOCK_BYTES):
        while block:
            rest = reader.decompress(block, BLOCK_BYTES)
            meter.spend("bytes", len(rest))
            block = reader.unconsumed_tail
            if not rest and not block:
                break
        if reader.eof and (reader.unused_data or file.read(1)):
            raise ValueError("something follows its end")
    if not reader.eof:
        raise ValueError("it is cut short")


def _check_jpeg(file: BinaryIO, size_bytes: int, meter: Meter) -> None:
    begin = file.read(2)
    file.seek(max(0, size_bytes - 2))
    if begin != b"\xff\xd8" or file.read(2) != b"\xff\xd9":
        raise ValueError("it is not a whole JPEG picture")


def _check_json(file: BinaryIO, size_bytes: int, meter: Meter) -> None:
    if size_bytes > _LONGEST_JSON:
        raise ValueError(f"it has more than {_LONGEST_JSON} bytes")
    json.loads(file.read().decode("utf-8"))


def _check_parquet(file: BinaryIO, size_bytes: int, meter: Meter) -> None:
    begin = file.read(4)
    file.seek(max(0, size_bytes - 8))
    length, end = struct.unpack("<I4s", file.read(8))
    if begin != b"PAR1" or end != b"PAR1" or length > size_bytes - 12:
        raise ValueError("it is not a whole Parquet file")


_CHECKS: Mapping[str, Callable[[BinaryIO, int, Meter], None]] = {
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
