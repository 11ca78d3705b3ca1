"""Runs a server, and ends it with the run: ``python -P -m ...servers.server_guard <socket> <log> <command>``.

A separate process, so that LoadGen's process neither reads the server's output nor waits for its end. The server's
output goes to the log, up to a limit. When the other side closes the socket, or dies, the server gets SIGTERM and a few
seconds, and then all its processes are killed. When the server ends by itself, its status is sent to the socket.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NoReturn

import psutil

MOST_LOG_BYTES = 1 << 26
"""Most bytes of the log: a server may log each request."""

LEAVES_WITHIN_S = 10.0
"""Time from SIGTERM to SIGKILL: servers with several processes take some seconds to end them."""

_CHUNK_BYTES = 1 << 16
_PULSE_S = 0.1
_NOT_STARTED = 127
_CUT = b"\n(the rest of the log is left out)\n"


class BoundedFile:
    """A file that keeps a limited number of bytes, and drops the rest."""

    def __init__(self, file: IO[bytes], most: int) -> None:
        self._file = file
        self._room = most

    def write(self, data: bytes) -> None:
        """Write as much as there is room for; nothing on a full disk."""
        if self._room <= 0:
            return
        kept = data if len(data) <= self._room else data[: self._room] + _CUT
        self._room -= len(data)
        with contextlib.suppress(OSError):
            self._file.write(kept)
            self._file.flush()


def main(arguments: Sequence[str]) -> NoReturn:
    """Start the server, and run until one of the two sides ends."""
    number, log, *command = arguments
    line = socket.socket(fileno=int(number))
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # the other side gets these too, and closes the socket; a handler is not inherited, as SIG_IGN would be
        signal.signal(each, _go_on)
    with Path(log).open("wb") as file:
        try:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            file.write(f"{command[0]} cannot be started: {error.strerror}\n".encode())
            file.flush()
            _report(line, _NOT_STARTED)
            os._exit(0)
        try:
            status = _follow(server, line, BoundedFile(file, MOST_LOG_BYTES))
            if status is not None:
                _report(line, status)
        finally:
            end(server)
    os._exit(0)


def end(server: subprocess.Popen[bytes]) -> None:
    """End a server and all of its processes."""
    family = _family(server)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGTERM)
    until_s = time.monotonic() + LEAVES_WITHIN_S
    while time.monotonic() < until_s and any(map(_is_running, family)):
        server.poll()
        time.sleep(_PULSE_S)
        family |= _family(server)
    for process in family:
        with contextlib.suppress(psutil.Error):
            process.kill()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()


def _follow(server: subprocess.Popen[bytes], line: socket.socket, log: BoundedFile) -> int | None:
    """Copy the server's output; return its status when it ends, None when the other side closes."""
    assert server.stdout
    output = server.stdout.fileno()
    waiting = [output, line.fileno()]
    while True:
        ready, _, _ = select.select(waiting, [], [], _PULSE_S)
        if line.fileno() in ready:
            return None  # it sends nothing: this is its end
        if output in ready:
            if data := os.read(output, _CHUNK_BYTES):
                log.write(data)
                continue
            waiting.remove(output)  # closed, by a server that may still run
        if server.poll() is not None and not (output in waiting and select.select([output], [], [], 0)[0]):
            return server.returncode


def _family(server: subprocess.Popen[bytes]) -> set[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        root = psutil.Process(server.pid)
        return {root, *root.children(recursive=True)}
    return set()


def _is_running(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _report(line: socket.socket, status: int) -> None:
    with contextlib.suppress(OSError):  # the other side is gone
        line.sendall(f"{status}\n".encode())


def _go_on(number: int, frame: object) -> None:
    pass


if __name__ == "__main__":
    main(sys.argv[1:])
