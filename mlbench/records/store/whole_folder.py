"""Folders that are written completely, or not at all."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.system.locks import hold_lock, open_locked

MARKER = "mlbench-site.json"
"""The file that says that a folder is a site, and which files of it are mlbench's."""

_FORMAT = 1
_AT_FOLDER = -100  # AT_FDCWD of Linux
_EXCHANGE = 2  # RENAME_EXCHANGE


def write_site(folder: Path, pages: Iterable[tuple[str, str]]) -> int:
    """Write pages beside a folder and put them in its place, and return how many bytes they are.

    Args:
        folder: missing, empty, or a site that was written before, which is replaced as a whole.
        pages: each page's path inside the folder, and its text.

    Raises:
        UsageError: something else is there, or the folder cannot be written.
    """
    place = Path(os.path.realpath(folder))
    check_place(folder)
    try:
        with hold_folder_beside(place) as beside:
            size_bytes = _write_pages(beside, pages)
            check_place(folder)  # minutes may have passed
            _put_in_place(beside, place)
            return size_bytes
    except OSError as error:
        hint = "Choose another place."
        raise UsageError(f"site cannot be written: {folder}: {error.strerror}.", hint=hint) from None


def check_place(folder: Path) -> None:
    """Raise `UsageError` where a folder holds anything but a site of ours."""
    place, hint = Path(os.path.realpath(folder)), "Name a new folder, or an older site to replace."
    try:
        found = _files_in(place)
    except FileNotFoundError:
        if place.parent.is_dir():
            return
        raise UsageError(f"site cannot be written: {folder.parent} is not a folder.", hint="Make it first.") from None
    except OSError as error:
        raise UsageError(f"site cannot be written: {folder}: {error.strerror}.", hint=hint) from None
    if not found:
        return
    ours = _listed_files(place)
    if not ours:
        raise UsageError(f"folder {folder} is neither empty nor a site of mlbench.", hint=hint)
    if foreign := sorted(found - ours):
        raise UsageError(
            f"folder {folder} is a site that also contains {foreign[0]!r}.", hint="Move it elsewhere first."
        )


def _files_in(place: Path) -> set[str]:
    """Return the files and links below a folder; raises where it is none."""
    os.listdir(place)
    return {
        os.path.relpath(os.path.join(where, name), place)
        for where, folders, files in os.walk(place)
        for name in [*files, *(each for each in folders if os.path.islink(os.path.join(where, each)))]
    }


def _listed_files(place: Path) -> set[str]:
    """Return the files that a site's marker lists, itself among them; none where there is no marker."""
    try:
        content = json.loads((place / MARKER).read_text(encoding="utf-8"))
        return {MARKER, *map(str, content["files"])}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return set()


@contextmanager
def hold_folder_beside(place: Path) -> Iterator[Path]:
    """Give a new folder beside a place, which is removed in the end, as are those of processes that were killed."""
    beside = place.parent / f".{place.name}.{os.getpid()}.partial"
    with hold_lock(place.parent):  # no folder is seen between its creation and its lock
        for left in place.parent.glob(f".{escape(place.name)}.*.partial"):
            _remove_abandoned(left)
        beside.mkdir()
        lock = open_locked(beside)
    try:
        yield beside
    finally:
        os.close(lock)
        shutil.rmtree(beside, ignore_errors=True)


def _remove_abandoned(folder: Path) -> None:
    """Remove a folder whose lock no living process holds."""
    with suppress(OSError), hold_lock(folder, patience_s=0):
        shutil.rmtree(folder, ignore_errors=True)


def _write_pages(folder: Path, pages: Iterable[tuple[str, str]]) -> int:
    """Write pages and the marker, and return their size."""
    names, size_bytes = [], 0
    for name, text in pages:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        content = text.encode(errors="backslashreplace")
        file.write_bytes(content)
        names.append(name)
        size_bytes += len(content)
    marker = {"format": _FORMAT, "files": sorted(names)}
    (folder / MARKER).write_text(json.dumps(marker, indent=1) + "\n", encoding="utf-8")
    return size_bytes


def _put_in_place(made: Path, place: Path) -> None:
    """Exchange two folders at once; where the file system cannot, there is none for a moment, but never half of one."""
    if not place.exists() or not any(place.iterdir()):
        made.rename(place)
        return
    if _exchange(made, place):
        return
    old = made.with_name(f"{made.name.removesuffix('.partial')}.old.partial")
    place.rename(old)
    made.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and not rename(_AT_FOLDER, os.fsencode(one), _AT_FOLDER, os.fsencode(other), _EXCHANGE)
