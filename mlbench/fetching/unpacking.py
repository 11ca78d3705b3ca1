"""Archives, unpacked beside their place and renamed: they write nowhere else, and nothing larger than they say."""

from __future__ import annotations

import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from mlbench.errors import DataError
from mlbench.fetching.data_folder import remove_tree
from mlbench.fetching.parts import storage_error
from mlbench.fetching.sources import is_inside

MOST_MEMBERS = 2_000_000
MOST_RATIO = 200
"""Bytes that come out of a byte of an archive; text packs to a tenth, zeros to a thousandth."""
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    name: str
    size_bytes: int
    is_file: bool
    """A regular file; everything else but folders is refused."""
    is_folder: bool
    entry: tarfile.TarInfo | zipfile.ZipInfo


def unpack_archive(archive: Path, kind: str, destination: Path, *, member: str = "") -> int:
    """Unpack an archive as a folder, or one of its files as a file; return how many bytes came out.

    Args:
        archive: the file.
        kind: ``tar``, packed in whatever way, or ``zip``.
        destination: the folder, or the file; it does not exist before it is complete.
        member: the only file that is wanted: its path, or ``*`` and an ending.

    Raises:
        DataError: the archive is damaged, or would leave its folder, hold links or devices, name a file twice, or
            become larger than is credible.
        StorageError: there is no room.
    """
    fresh = destination.with_name(f"{destination.name}.unpacking")
    remove_tree(fresh)
    try:
        written = _unpack(archive, kind, fresh, member)
        remove_tree(destination)
        os.replace(fresh, destination)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _refusal(archive, f"it is damaged ({type(error).__name__})") from None
    except OSError as error:
        raise storage_error(destination, error) from None
    finally:
        remove_tree(fresh)
    return written


def _unpack(archive: Path, kind: str, fresh: Path, member: str) -> int:
    limit, written, names = archive.stat().st_size * MOST_RATIO + (1 << 20), 0, set[str]()
    with _opened(archive, kind) as container:
        if not member:
            fresh.mkdir(parents=True)
        for each in _members(container):
            _check_member(archive, each, names)
            is_wanted = each.name == member or (member.startswith("*") and each.name.endswith(member[1:]))
            if each.is_folder or (member and not is_wanted):
                continue
            written += each.size_bytes
            if written > limit or len(names) > MOST_MEMBERS:
                raise _refusal(archive, "it would become more than is credible")
            target = fresh if member else fresh / each.name
            if member and os.path.lexists(fresh):
                raise _refusal(archive, f"two of its files are {member}")
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_member(archive, container, each, target)
    if member and not os.path.lexists(fresh):
        raise _refusal(archive, f"it has no file {member}")
    return written


def _check_member(archive: Path, member: _Member, names: set[str]) -> None:
    name = member.name.casefold()
    if not is_inside(member.name):
        raise _refusal(archive, f"it would write {member.name!r}, outside its folder")
    if not (member.is_file or member.is_folder):
        raise _refusal(archive, f"{member.name!r} is a link or a device")
    if name in names and not member.is_folder:
        raise _refusal(archive, f"two of its files are {member.name!r}")
    names.add(name)


def _write_member(archive: Path, container: tarfile.TarFile | zipfile.ZipFile, member: _Member, target: Path) -> None:
    left = member.size_bytes
    with _reader(container, member) as source, target.open("xb") as file:
        while block := source.read(_BLOCK_BYTES):
            left -= len(block)
            if left < 0:
                break
            file.write(block)
    if left:
        raise _refusal(archive, f"{member.name!r} has another length than the archive says")


def _reader(container: tarfile.TarFile | zipfile.ZipFile, member: _Member) -> IO[bytes]:
    if isinstance(container, zipfile.ZipFile):
        assert isinstance(member.entry, zipfile.ZipInfo)
        return container.open(member.entry)
    assert isinstance(member.entry, tarfile.TarInfo)
    found = container.extractfile(member.entry)
    assert found is not None
    return found


@contextmanager
def _opened(archive: Path, kind: str) -> Iterator[tarfile.TarFile | zipfile.ZipFile]:
    if kind == "zip":
        with zipfile.ZipFile(archive) as packed:
            yield packed
    else:
        with tarfile.open(archive) as tape:
            yield tape


def _members(container: tarfile.TarFile | zipfile.ZipFile) -> Iterator[_Member]:
    if isinstance(container, zipfile.ZipFile):
        for packed in container.infolist():
            kind = stat.S_IFMT(packed.external_attr >> 16)
            yield _Member(
                name=packed.filename.rstrip("/"),
                size_bytes=packed.file_size,
                is_file=not packed.is_dir() and kind in (0, stat.S_IFREG),
                is_folder=packed.is_dir(),
                entry=packed,
            )
        return
    for entry in container:
        name = entry.name.removeprefix("./").rstrip("/")
        if name in {"", "."} and entry.isdir():
            continue
        yield _Member(name=name, size_bytes=entry.size, is_file=entry.isreg(), is_folder=entry.isdir(), entry=entry)


def _refusal(archive: Path, reason: str) -> DataError:
    return DataError(f"{archive} was not unpacked: {reason}.", hint="Give a right copy with --from PATH.")
