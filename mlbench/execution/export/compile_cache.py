"""Cache of files that take long to make, keyed by a hash of their inputs."""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mlbench.errors import DataError
from mlbench.system.documents import read_json_object
from mlbench.system.folders import cache_folder, make_cache_folder

logger = logging.getLogger(__name__)

_SIZES = ".sizes.json"
"""A file in each folder: the sizes of its files by name. A crash of the machine or a full disk can truncate them."""


def build_once(kind: str, made_from: Any, fill: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, which ``fill`` has written.

    ``fill`` is called only where there is no such folder, or a file of it is missing or cut.

    The folder is filled beside its place and renamed: it is whole or absent. Of two processes at once one fills it, and
    the other waits; where the file system has no locks both do.

    Args:
        kind: names the shelf: ``onnx``.
        made_from: a JSON value of all that decides the contents: fingerprints, settings, versions.
        fill: writes the contents into the folder it is given; what it raises is passed on, and nothing is kept.

    Raises:
        UsageError: the cache cannot be written.
    """
    folder = _place(kind, made_from)
    if _is_whole(folder):
        return folder
    make_cache_folder(kind)
    with _lock(folder):
        return folder if _is_whole(folder) else _fill(folder, fill)


def is_built(kind: str, made_from: Any) -> bool:
    """Return whether the cache has the folder that `build_once` would fill."""
    return _is_whole(_place(kind, made_from))


def _place(kind: str, made_from: Any) -> Path:
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:32]
    return cache_folder() / kind / key


def _fill(folder: Path, fill: Callable[[Path], None]) -> Path:
    fresh = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        fill(fresh)
        (fresh / _SIZES).write_text(json.dumps(_sizes(fresh)), encoding="utf-8")
        if folder.is_dir() and not _is_whole(folder):
            logger.warning("%s in the cache was damaged, and is made again", folder)
            shutil.rmtree(folder)
        os.replace(fresh, folder)
    except OSError:
        if not folder.is_dir():  # if it exists, another process was first, and its folder is equivalent
            raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Wait until no other process fills this folder; a process that ends lets go of it, however it ends."""
    path = folder.with_name(f".{folder.name}.lock")
    with open(path, "a", encoding="utf-8") as held:
        with suppress(OSError):
            fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)  # what waits for it looks at the folder next


def _sizes(folder: Path) -> dict[str, int]:
    files = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names)
    return {file[len(str(folder)) + 1 :]: os.stat(file).st_size for file in files}


def _is_whole(folder: Path) -> bool:
    """Return whether a folder's files have their recorded sizes; additional files do not matter."""
    try:
        written = read_json_object(folder / _SIZES, what="list of files")
        return written.items() <= _sizes(folder).items()
    except (OSError, DataError):
        return False
