"""A Python process beside this one, with a socket between the two."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys

_PR_SET_PDEATHSIG = 1


class SideProcess:
    """Runs ``python -m module <descriptor> <arguments>``, which is to end when this side hangs up.

    The module finds its end of the socket under the descriptor. What it prints goes where this process prints.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        """Start the process. Start it from a thread that lives on, where it calls `end_with_the_parent`."""
        self.line, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-m", module, str(number), *arguments]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def hang_up(self) -> None:
        """Send no more."""
        try:
            self.line.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side was first

    def wait(self, patience_s: float) -> int:
        """Return the status that it ends with, as `subprocess` has it; a process that stays is killed."""
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def end_with_the_parent() -> None:
    """Have the kernel end this process with the thread that started it, however that ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
