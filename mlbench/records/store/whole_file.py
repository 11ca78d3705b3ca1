"""Files that are written completely, or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from mlbench.errors import UsageError


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a temporary file and rename it; an older file stays until the new one is complete.

    Of a symbolic link the file that it leads to is replaced. A pipe or a device is not: renamed onto ``/dev/null``, a
    file would take its place for all.

    Raises:
        UsageError: the folder is missing or cannot be written, the disk is full, or a pipe or device is there.
    """
    place = Path(os.path.realpath(file))
    if os.path.lexists(place) and not os.path.isfile(place) and not os.path.isdir(place):
        raise UsageError(f"file cannot be written: {file}: it is not a regular file.", hint="Choose another place.")
    beside = place.parent / f".{place.name}.{os.getpid()}.partial"
    try:
        beside.write_bytes(content.encode(errors="backslashreplace") if isinstance(content, str) else content)
        beside.replace(place)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise UsageError(f"file cannot be written: {file}: {error.strerror}.", hint="Choose another place.") from None
