"""A Python process beside this one, with a socket between the two."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

from mlbench.execution.patience import is_hung
from mlbench.execution.usage import process_tree, processor_time_s

_PULSE_S = 0.5


class SideProcess:
    """Runs ``python -P -m module <descriptor> <arguments>``, which must exit when this side closes the socket.

    The module finds its end of the socket under the descriptor. What it prints goes where this process prints. Nothing
    is imported from the current folder.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        """Start the process. Start it from a thread that lives on, where it calls `die_with_parent`."""
        self.line, theirs = socket.socketpair()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-P", "-m", module, str(number), *arguments]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])

    @property
    def pid(self) -> int:
        """Return the process's number."""
        return self._process.pid

    def processor_time_s(self) -> float:
        """Return the processor time that it has used, with all below it."""
        return processor_time_s(process_tree(self.pid))

    def hang_up(self) -> None:
        """Send no more."""
        try:
            self.line.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side was first

    def wait(self, patience_s: float) -> int:
        """Return the status that it ends with, as `subprocess` has it; a process that stays is killed.

        Args:
            patience_s: how long it may take; longer where it is at work on a busy machine (`is_hung`).
        """
        began_s, computed_s = time.monotonic(), self.processor_time_s()
        while True:
            try:
                return self._process.wait(min(patience_s, _PULSE_S))
            except subprocess.TimeoutExpired:
                if is_hung(time.monotonic() - began_s, self.processor_time_s() - computed_s, patience_s):
                    self.kill()
                    return self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
