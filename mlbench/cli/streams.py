"""Standard streams of the process, which may be closed or write to a full disk, and the end of the process."""

from __future__ import annotations

import atexit
import io
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

from mlbench.cli.output import echo_line

UNWRITABLE = 74
"""Exit status if standard output cannot be written: EX_IOERR of sysexits.h."""

_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}


class _Output(io.FileIO):
    """Standard output; it keeps the reason of a failed write, even if the error is caught elsewhere."""

    failure = ""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:  # its reader has seen enough
            raise
        except OSError as error:
            self.failure = error.strerror or str(error)
            raise


def prepare_streams() -> None:
    """Open missing standard streams on /dev/null, so that no file gets their descriptors."""
    while (number := os.open(os.devnull, os.O_RDWR)) < len(_STREAMS):
        pass
    os.close(number)
    for number, (name, mode) in enumerate(_STREAMS.items()):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))
    written = io.BufferedWriter(_Output(sys.stdout.fileno(), "w", closefd=False))
    sys.stdout = io.TextIOWrapper(written, sys.stdout.encoding, line_buffering=sys.stdout.isatty())


def is_output_lost() -> bool:
    """Return whether a write to standard output failed, and print the reason; later writes are dropped."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(raw, _Output):
        return False
    with suppress(OSError):
        sys.stdout.flush()
    if raw.failure:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, raw.fileno())
        os.close(nowhere)
        complain(f"Error: standard output cannot be written: {raw.failure}.")
    return bool(raw.failure)


def complain(text: str) -> None:
    """Print an error on one line of standard error, if that can be written."""
    with suppress(OSError):
        echo_line(text, to_stderr=True)


def end_process(status: int) -> NoReturn:
    """End the process without waiting for threads of plugins; print which ones still run."""
    guard = sys.modules.get("mlbench.discovery.guard")
    left = {owner for thread, owner in guard.left_threads.items() if thread.is_alive()} if guard else ()
    if not left:
        sys.exit(status)
    for owner in sorted(left):
        complain(f"plugin {owner} left a thread running; mlbench exits without waiting for it.")
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)
