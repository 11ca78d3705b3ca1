"""Archives, whose libraries believe what they say: counted before anything of them is unpacked."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import IO, Any, BinaryIO

from mlbench.system.documents.door import BudgetSpentError, Meter

PIECE_BYTES = 1 << 16
"""What is read of a member at a time, and the longest header of a tar: paths have 4,096 bytes at most."""

_DIRECTORY_BYTES = 1 << 27
"""The longest directory of a zip: two million names."""

_LOCAL_HEADER_BYTES = 30

_UNPACKERS: dict[bytes, Callable[[BinaryIO], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}


class _BoundedFile:
    """A file that refuses to be read in long pieces, and says how far it is read or skipped."""

    def __init__(self, file: IO[bytes], longest: int, on_bytes: Callable[[int], None]) -> None:
        self._file, self._longest, self._on_bytes = file, longest, on_bytes
        self.tell, self.close, self.seekable = file.tell, file.close, file.seekable

    def read(self, size: int = -1) -> bytes:
        wanted = self._longest + 1 if size is None or size < 0 else size
        if wanted > self._longest and size and size > 0:
            raise BudgetSpentError(f"a header of it has {size} bytes")
        content = self._file.read(wanted)
        if len(content) > self._longest:
            raise BudgetSpentError(f"a header of it has more than {self._longest} bytes")
        self._on_bytes(len(content))
        return content

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 0:
            self._on_bytes(max(0, place - self._file.tell()))
        return self._file.seek(place, whence)


@contextmanager
def open_zip(file: BinaryIO, meter: Meter) -> Iterator[zipfile.ZipFile]:
    """Open a zip whose members are counted, and lie apart from each other.

    Raises:
        BudgetSpentError: it has too many.
        ValueError: two of them share bytes: a few kilobytes can be thousands of gigabytes so.
        Exception: whatever the library raises.
    """
    with zipfile.ZipFile(_BoundedFile(file, _DIRECTORY_BYTES, lambda count: None)) as archive:
        members = archive.infolist()
        meter.spend("members", len(members))
        for one, other in pairwise(sorted(members, key=lambda each: each.header_offset)):
            if one.header_offset + _LOCAL_HEADER_BYTES + one.compress_size > other.header_offset:
                raise ValueError(f"its members {one.filename!r} and {other.filename!r} overlap")
        yield archive


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, meter: Meter) -> Iterator[bytes]:
    """Yield the bytes of a zip's member, whose checksum is looked at; as `open_zip`."""
    meter.spend("bytes", member.file_size)
    with archive.open(member) as packed:
        while block := packed.read(PIECE_BYTES):
            meter.spend("bytes", 0)
            yield block


@contextmanager
def open_tar(file: BinaryIO, meter: Meter) -> Iterator[tarfile.TarFile]:
    """Open a tar, packed by gzip, xz, bzip2 or not at all, of which every byte is counted, passed over or read.

    Raises:
        BudgetSpentError: it becomes too much, or a header is longer than a path can be.
        Exception: whatever the libraries raise.
    """
    begin = file.read(5)
    file.seek(0)
    unpacker = next((made for magic, made in _UNPACKERS.items() if begin.startswith(magic)), None)
    plain = unpacker(file) if unpacker else file
    bounded = _BoundedFile(plain, PIECE_BYTES, lambda count: meter.spend("bytes", count))
    with tarfile.TarFile(fileobj=bounded) as archive:  # type: ignore[arg-type]
        yield archive


def tar_members(archive: tarfile.TarFile, meter: Meter) -> Iterator[tarfile.TarInfo]:
    """Yield the members of a tar; none is kept, since each may carry a thousand notes."""
    while member := archive.next():
        meter.spend("members")
        yield member
        archive.members.clear()  # type: ignore[attr-defined]
