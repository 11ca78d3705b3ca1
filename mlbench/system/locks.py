"""Locks of folders and files, which the kernel releases when their process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PULSE_S = 0.02


@contextmanager
def hold_lock(place: Path, *, patience_s: float = float("inf"), is_made: bool = False) -> Iterator[None]:
    """Hold the lock of a folder or file; arguments and errors are those of `open_locked`."""
    descriptor = open_locked(place, patience_s=patience_s, is_made=is_made)
    try:
        yield
    finally:
        os.close(descriptor)


def open_locked(place: Path, *, patience_s: float = float("inf"), is_made: bool = False) -> int:
    """Wait for the lock of a folder or file, and return the descriptor that holds it until it is closed.

    Args:
        place: what is locked.
        patience_s: how long another process may hold it.
        is_made: a file is made where there is none.

    Raises:
        BlockingIOError: another process holds it longer.
        OSError: it cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT if is_made else os.O_RDONLY
    descriptor = os.open(place, flags | os.O_CLOEXEC, 0o666)
    until_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if time.monotonic() >= until_s:
                os.close(descriptor)
                raise
            time.sleep(_PULSE_S)
        except OSError:
            os.close(descriptor)
            raise
