"""A Python process beside this one, with a socket between the two."""

from __future__ import annotations

import socket
import subprocess
import sys

from mlbench.execution.processes.patience import Silence
from mlbench.execution.processes.usage import process_tree

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

    def tree(self) -> list[int]:
        """Return the process and all below it; none when it is gone."""
        return [each.pid for each in process_tree(self.pid)]

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
        silence = Silence(self.tree())
        while True:
            try:
                return self._process.wait(min(patience_s, _PULSE_S))
            except subprocess.TimeoutExpired:
                if silence.is_hang(patience_s, self.tree()):
                    self.kill()
                    return self._process.wait()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
