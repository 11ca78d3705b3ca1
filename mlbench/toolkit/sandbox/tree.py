"""Walks folders that an untrusted program has written to, by descriptors.

No path is longer than one name and no call waits: neither depth nor links, pipes or folders without rights matter.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator

DEEPEST = 100
"""How many levels below a folder are looked at; a program that nests more has passed the limit of its folder."""

_ENTRY_BYTES = 4096
"""Size that an entry counts in addition to its content, as in a folder in memory."""
_READ = os.R_OK | os.X_OK
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TooDeepError(Exception):
    """A folder is nested deeper than is looked at."""


def open_folder(name: str, parent: int | None = None, *, rights: int = _READ) -> int:
    """Open a folder, not a link to one, and give its owner the rights back that are missing.

    Args:
        name: in ``parent``.
        parent: an open folder; None for a path from here.
        rights: what is needed, as in `os.access`.

    Raises:
        OSError: it is not a folder, or not ours.
    """
    try:
        descriptor = os.open(name, _FLAGS, dir_fd=parent)
    except PermissionError:
        _unlock(name, parent)
        descriptor = os.open(name, _FLAGS, dir_fd=parent)
    _give_rights(descriptor, rights)
    return descriptor


def _give_rights(folder: int, rights: int) -> None:
    if not os.access(".", rights, dir_fd=folder):
        with contextlib.suppress(OSError):  # what follows is then refused, and says so
            os.fchmod(folder, 0o700)


def _unlock(name: str, parent: int | None) -> None:
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{place}", 0o700)
    finally:
        os.close(place)


def walk(folder: int) -> Generator[tuple[int, os.DirEntry[str]], None, None]:
    """Yield each entry below an open folder, with the descriptor of the folder that holds it.

    What is removed meanwhile, or cannot be opened, is left out.

    Raises:
        TooDeepError: there is a folder more than `DEEPEST` levels below.
        OSError: the folder itself cannot be looked at.
    """
    _give_rights(folder, _READ)
    levels = [_level(".", folder)]
    try:
        while levels:
            here, entries = levels[-1]
            entry = next(entries, None)
            if entry is None:
                levels.pop()
                os.close(here)
                continue
            yield here, entry
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    if len(levels) > DEEPEST:
                        raise TooDeepError
                    levels.append(_level(entry.name, here))
    finally:
        for here, _ in levels:
            os.close(here)


def _level(name: str, parent: int) -> tuple[int, Iterator[os.DirEntry[str]]]:
    here = open_folder(name, parent)
    return here, _entries(here)


def _entries(folder: int) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # it may be removed meanwhile
        yield from entries


def tree_bytes(folder: int, most_bytes: int) -> int:
    """Return what a folder takes up on its disk, with something for each entry.

    More than ``most_bytes`` where it is too deep, or takes its owner's rights away as often as they are given.

    Args:
        folder: open.
        most_bytes: counting stops above it.
    """
    total_bytes = 0
    try:
        with contextlib.closing(walk(folder)) as entries:
            for _, entry in entries:
                with contextlib.suppress(OSError):  # it is gone already
                    total_bytes += entry.stat(follow_symlinks=False).st_blocks * 512 + _ENTRY_BYTES
                if total_bytes > most_bytes:
                    break
    except FileNotFoundError:  # a program of the same user has removed it
        return 0
    except (TooDeepError, PermissionError):
        return most_bytes + 1
    return total_bytes
