"""The data folder: one process fetches into it at a time; how large what lies in it is."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.fetching.lock_file import LockFile
from mlbench.fetching.parts import storage_error
from mlbench.system.locks import open_locked


@contextmanager
def only_fetch(data: Path) -> Iterator[LockFile]:
    """Open the record of a data folder, which is made where it is missing, for one process at a time.

    Raises:
        UsageError: another process fetches into it.
        StorageError: it cannot be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True)
        descriptor = open_locked(data / ".fetching", patience_s=0, is_made=True)
    except BlockingIOError:
        raise UsageError(f"another mlbench fetch works on {data}.", hint="Wait until it is finished.") from None
    except OSError as error:
        raise storage_error(data, error) from None
    try:
        yield LockFile.read(data)
    finally:
        os.close(descriptor)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; -1 where nothing is."""
    try:
        if not path.is_dir():
            return path.stat().st_size
        return sum(Path(folder, name).stat().st_size for folder, _, names in os.walk(path) for name in names)
    except OSError:
        return -1


def remove_tree(path: Path) -> None:
    """Remove a file, a link or a folder, if there is one; raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
