"""Archives, unpacked beside their place and renamed: they write nowhere else, and nothing larger than they say."""

from __future__ import annotations

import errno
import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from mlbench.fetching.data_folder import remove_tree
from mlbench.fetching.parts import storage_error
from mlbench.fetching.sources import is_inside
from mlbench.fetching.structure import MOST_RATIO
from mlbench.system.documents import Budget, Meter, foreign, open_regular
from mlbench.system.documents.archives import PIECE_BYTES, open_tar, open_zip, read_member, tar_members

_HINT = "Give a right copy with --from PATH."
_NAME_ERRORS = {errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}
"""Errors from an archive's names, not from the disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    name: str
    size_bytes: int
    is_file: bool
    """A regular file; everything else but folders is refused."""
    is_folder: bool
    blocks: Iterator[bytes]


def unpack_archive(archive: Path, kind: str, destination: Path, *, member: str = "") -> int:
    """Unpack an archive as a folder, or one of its files as a file; return how many bytes came out.

    Args:
        archive: the file.
        kind: ``tar``, packed in whatever way, or ``zip``.
        destination: the folder, or the file; it does not exist before it is complete.
        member: the only file that is wanted: its path, or ``*`` and an ending.

    Raises:
        DataError: the archive is damaged, or would leave its folder, hold links or devices, name a file twice or as a
            folder as well, or expand too far.
        StorageError: there is no room.
    """
    fresh = destination.with_name(f"{destination.name}.unpacking")
    remove_tree(fresh)
    try:
        budget = Budget(bytes=archive.stat().st_size * MOST_RATIO + (1 << 20))
        with foreign(archive, "was not unpacked", budget=budget, hint=_HINT) as meter:
            written = _unpack(archive, kind, fresh, member, meter)
        with _storing(destination):
            remove_tree(destination)
            os.replace(fresh, destination)
    finally:
        remove_tree(fresh)
    return written


def _unpack(archive: Path, kind: str, fresh: Path, member: str, meter: Meter) -> int:
    written, names = 0, _Names()
    with open_regular(archive) as file:
        if not member:
            with _storing(fresh):
                fresh.mkdir(parents=True)
        for each in _zip_members(file, meter) if kind == "zip" else _tar_members(file, meter):
            names.add(each)
            is_wanted = each.name == member or (member.startswith("*") and each.name.endswith(member[1:]))
            if each.is_folder or (member and not is_wanted):
                continue
            target = fresh if member else fresh / each.name
            if member and os.path.lexists(fresh):
                raise ValueError(f"two of its files are {member}")
            written += _write_member(each, target)
    if member and not os.path.lexists(fresh):
        raise ValueError(f"it has no file {member}")
    return written


@dataclass(frozen=True, slots=True)
class _Names:
    """The paths of an archive, as a disk sees them that knows no capitals."""

    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)

    def add(self, member: _Member) -> None:
        """Add a member's path; raises `ValueError` where it cannot be unpacked beside the others."""
        name = member.name.casefold()
        if not is_inside(member.name):
            raise ValueError(f"it would write {member.name!r}, outside its folder")
        if not (member.is_file or member.is_folder):
            raise ValueError(f"{member.name!r} is a link or a device")
        if member.is_file and name in self.files:
            raise ValueError(f"two of its files are {member.name!r}")
        above = [str(each) for each in PurePosixPath(name).parents][:-1]
        folders = above if member.is_file else [*above, name]
        if (member.is_file and name in self.folders) or not self.files.isdisjoint(folders):
            raise ValueError(f"{member.name!r}, or what it lies in, is a file and a folder")
        self.folders.update(folders)
        if member.is_file:
            self.files.add(name)


def _write_member(member: _Member, target: Path) -> int:
    left = member.size_bytes
    with _storing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        file = target.open("xb")
    with file:
        for block in member.blocks:
            left -= len(block)
            if left < 0:
                break
            with _storing(target):
                file.write(block)
        with _storing(target):
            file.flush()
    if left:
        raise ValueError(f"{member.name!r} has another length than the archive says")
    return member.size_bytes


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """Distinguish errors of the disk from those of an archive's names."""
    try:
        yield
    except OSError as error:
        if error.errno in _NAME_ERRORS:
            raise ValueError(f"{path.name[:80]!r} is not a name of a file here: {error.strerror}") from None
        raise storage_error(path, error) from None


def _zip_members(file: BinaryIO, meter: Meter) -> Iterator[_Member]:
    with open_zip(file, meter) as archive:
        for packed in archive.infolist():
            kind = stat.S_IFMT(packed.external_attr >> 16)
            yield _Member(
                name=packed.filename.rstrip("/"),
                size_bytes=packed.file_size,
                is_file=not packed.is_dir() and kind in (0, stat.S_IFREG),
                is_folder=packed.is_dir(),
                blocks=read_member(archive, packed, meter),
            )


def _tar_members(file: BinaryIO, meter: Meter) -> Iterator[_Member]:
    with open_tar(file, meter) as archive:
        for entry in tar_members(archive, meter):
            name = entry.name.removeprefix("./").rstrip("/")
            if name in {"", "."} and entry.isdir():
                continue
            yield _Member(
                name=name,
                size_bytes=entry.size,
                is_file=entry.isreg(),
                is_folder=entry.isdir(),
                blocks=_blocks(archive, entry),
            )


def _blocks(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> Iterator[bytes]:
    found = archive.extractfile(entry)
    assert found is not None
    while block := found.read(PIECE_BYTES):
        yield block
