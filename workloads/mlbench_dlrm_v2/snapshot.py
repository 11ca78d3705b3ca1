"""The official checkpoint, a torchsnapshot directory, as memory maps: 97 GiB of tables that are never copied.

Format, as torchsnapshot 0.1.0 writes it: `.snapshot_metadata` is JSON (YAML in older versions), and its ``manifest``
describes each tensor under ``<rank>/<key>/<name>``: a ``Tensor`` in one piece, or a ``ShardedTensor`` or
``ChunkedTensor`` in several; of a sharded one each rank lists those it wrote. A piece is raw numbers, little endian,
in a file of its own or in a range of bytes of a file that holds many.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from mlbench import DataError
from mlbench.toolkit import foreign, parse_manifest, read_bytes

if TYPE_CHECKING:
    from torch import Tensor

MANIFEST = ".snapshot_metadata"
KEY = "model"
"""Name under which the model was saved."""

WRAPPER = "model."
"""Prefix of names from the training wrapper."""

HINT = "Fetch the checkpoint again; workload.weights is the folder that contains .snapshot_metadata."


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some rows and columns of a tensor, and the bytes that hold them; float32."""

    file: Path
    first_byte: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def tensor(self) -> Tensor:
        """Map the numbers; what a caller writes to the tensor stays in its own memory.

        Raises:
            DataError: the file is missing or too short.
        """
        import torch

        try:
            mapped = np.memmap(self.file, "<f4", mode="c", offset=self.first_byte, shape=self.sizes)
        except (OSError, ValueError) as error:
            raise DataError(f"checkpoint file {self.file} is missing or cut short: {error}.", hint=HINT) from None
        return torch.from_numpy(mapped if mapped.flags.aligned else mapped.copy())  # kernels rely on aligned numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Content of a snapshot's manifest."""

    folder: Path
    pieces: Mapping[str, Sequence[Piece]]
    """By the tensor's name in the official state dict."""
    fingerprint: str
    """A hash of the manifest, which names every file of this checkpoint alone."""

    def tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return a tensor, in memory; a vector may be stored as a column, as older versions of torchrec do.

        Raises:
            DataError: the snapshot does not hold all of it, or another shape.
        """
        import torch

        is_column = any(len(piece.sizes) > len(shape) for piece in self.pieces.get(name, ()))
        strips = self.strips(name, (*shape, 1) if is_column else shape)
        return torch.cat([torch.cat(strip) for strip in strips], dim=-1).reshape(shape)

    def strips(self, name: str, shape: tuple[int, ...]) -> list[list[Tensor]]:
        """Return a tensor's pieces, mapped: strips of columns from left to right, each of blocks from the top down.

        Raises:
            DataError: the snapshot does not hold all of it, or another shape.
        """
        if name not in self.pieces:
            raise DataError(f"the checkpoint lacks {name}: {self.folder}.", hint=HINT)
        in_order = sorted(self.pieces[name], key=lambda piece: piece.offsets[::-1])
        strips = [list(strip) for _, strip in groupby(in_order, key=lambda piece: piece.offsets[1:])]
        if not _covers(strips, shape):
            raise DataError(
                f"the checkpoint does not contain all of {name}, {shape}, once: {self.folder}.",
                hint="Its manifest is incomplete, or of another model.",
            )
        return [[piece.tensor() for piece in strip] for strip in strips]


def read_snapshot(folder: Path) -> Snapshot:
    """Read the manifest of a snapshot.

    Raises:
        DataError: it is missing or malformed, or describes a tensor that is not stored as plain float32.
    """
    path = folder / MANIFEST
    content = read_bytes(path, what="checkpoint's manifest", hint=HINT)
    pieces: dict[str, list[Piece]] = {}
    with foreign(path, "is not a snapshot's manifest", hint=HINT) as meter:
        for entry_path, entry in parse_manifest(content, meter)["manifest"].items():
            _, key, name = (*entry_path.split("/", 2), "", "")[:3]
            if key == KEY and entry["type"] in {"Tensor", "ChunkedTensor", "ShardedTensor"}:
                name = unquote(name).removeprefix(WRAPPER)
                found = [_piece(folder, name, part) for part in _parts(entry)]
                if entry["type"] == "ShardedTensor":
                    pieces.setdefault(name, []).extend(found)
                else:  # alike on every rank
                    pieces.setdefault(name, found)
    return Snapshot(folder=folder, pieces=pieces, fingerprint=hashlib.sha256(content).hexdigest())


def _parts(entry: Mapping[str, Any]) -> Iterator[tuple[Sequence[int], Mapping[str, Any]]]:
    """Yield where each part of a tensor begins, and the entry that describes it."""
    if entry["type"] == "Tensor":
        yield [0] * len(entry["shape"]), entry
    for part in entry.get("shards", entry.get("chunks", ())):
        yield part["offsets"], part["tensor"]


def _piece(folder: Path, name: str, part: tuple[Sequence[int], Mapping[str, Any]]) -> Piece:
    offsets, entry = part
    form = [entry[key] for key in ("dtype", "serializer", "location")]
    if not all(isinstance(each, str) for each in form):
        raise TypeError("dtype, serializer or location is not text")
    if form[:2] != ["torch.float32", "buffer_protocol"]:
        raise DataError(
            f"{name} is stored as {form[0]} by {form[1]}, not as plain float32: {folder}.",
            hint="Expected the official fp32 checkpoint.",
        )
    sizes = tuple(map(int, entry["shape"]))
    start, end = map(index, entry.get("byte_range") or (0, 4 * prod(sizes)))
    if end - start != 4 * prod(sizes):
        raise ValueError(f"{name} has {end - start} bytes for {sizes}")
    place = tuple(map(int, offsets))
    if not all(0 <= each < 2**62 for each in (start, *place, *sizes)) or len(place) != len(sizes):
        raise ValueError(f"{name} has a place or size that no tensor has")
    return Piece(file=folder / form[2], first_byte=start, offsets=place, sizes=sizes)


def _covers(strips: Sequence[Sequence[Piece]], shape: tuple[int, ...]) -> bool:
    """Return whether strips of pieces, in order, make up a tensor of this shape without gap or overlap."""
    rows, *columns = shape
    column = 0
    for strip in strips:
        row = 0
        for piece in strip:
            if piece.offsets != (row, *([column] if columns else [])) or piece.sizes[1:] != strip[0].sizes[1:]:
                return False
            row += piece.sizes[0]
        if row != rows:
            return False
        column += strip[0].sizes[1] if columns else 0
    return [column] == columns or not columns
