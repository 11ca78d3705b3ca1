"""The headers of files of tensors, which say how long each of them must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import BinaryIO

from mlbench.system.documents import parse_json

LONGEST_HEADER = 1 << 27
_NPY_HEADER = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensor:
    """What the header of a safetensors file says of a tensor."""

    dtype: str
    """Its code there: ``BF16``, ``F32``."""
    count: int
    """How many numbers it has."""
    end: int
    """Where it ends in the file."""


def stored_tensors(file: BinaryIO, size_bytes: int) -> Mapping[str, StoredTensor]:
    """Return the tensors of a safetensors file by name; raises `ValueError`, or what a parser raises."""
    begin = file.read(8)
    length = int.from_bytes(begin, "little")
    if len(begin) < 8 or length > min(LONGEST_HEADER, size_bytes - 8):
        raise ValueError("its header is longer than the file")
    header = parse_json(file.read(length).decode("utf-8"))
    return {
        name: StoredTensor(
            end=8 + length + int(entry["data_offsets"][1]), dtype=str(entry["dtype"]), count=prod(entry["shape"])
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }


def npy_bytes(file: BinaryIO) -> int:
    """Return how long an ``.npy`` file must be."""
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    if version not in {(1, 0), (2, 0)}:
        raise ValueError(f"its form {version[0]}.{version[1]} is not known")
    long = version == (2, 0)
    place = file.tell()
    length = int.from_bytes(file.read(4 if long else 2), "little")
    if length > _NPY_HEADER:
        raise ValueError(f"its header has {length} bytes")
    file.seek(place)
    shape, _, dtype = npy.read_array_header_2_0(file) if long else npy.read_array_header_1_0(file)
    if dtype.hasobject:
        raise ValueError("it contains Python objects")
    if any(length < 0 for length in shape):
        raise ValueError(f"its shape is {shape}")
    return file.tell() + prod(shape) * dtype.itemsize
