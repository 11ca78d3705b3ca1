"""The log of processes that may print without end."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

MOST_BYTES = 64 << 20
"""A log that is longer is cut."""

KEPT_BYTES = 32 << 20
"""How much of its beginning stays."""

_END_BYTES = 64 << 10


class BoundedLog:
    """A file that processes print to, which loses its middle when it has grown too long.

    They append to the file itself, so that a crash loses nothing and no reader is needed: between two looks it may
    be longer. It is held open here: whatever is done to its name, it is this file that is cut.
    """

    def __init__(self, path: Path) -> None:
        """Open it, at its end.

        Raises:
            OSError: it cannot be written.
        """
        self._descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._left_out_bytes = 0

    def fileno(self) -> int:
        """Return the descriptor to print to."""
        return self._descriptor

    def cut(self) -> None:
        """Leave the middle out if it is too long, and say so in its place."""
        with contextlib.suppress(OSError):  # the disk may be full
            size_bytes = os.fstat(self._descriptor).st_size
            if size_bytes <= MOST_BYTES:
                return
            end_bytes = min(_END_BYTES, size_bytes - KEPT_BYTES)
            end = os.pread(self._descriptor, end_bytes, size_bytes - end_bytes)
            self._left_out_bytes += size_bytes - KEPT_BYTES - end_bytes
            os.ftruncate(self._descriptor, KEPT_BYTES)
            note = (
                f"\n(a log contains {MOST_BYTES >> 20} MiB: {self._left_out_bytes / 2**20:.1f} MiB are left out here)\n"
            )
            os.write(self._descriptor, note.encode() + end)

    def close(self) -> None:
        """Let go of it; those who print to it may go on."""
        os.close(self._descriptor)
