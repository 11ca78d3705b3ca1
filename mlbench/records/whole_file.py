"""Files that are there whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from mlbench.errors import UsageError


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file beside its place and rename it; what was there stays until the new one is complete.

    Raises:
        UsageError: the folder is missing or cannot be written, or the disk is full.
    """
    beside = file.with_name(f".{file.name}.{os.getpid()}.partial")
    try:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UsageError(f"file cannot be written: {file}: {error.strerror}.", hint="Choose another place.") from None
