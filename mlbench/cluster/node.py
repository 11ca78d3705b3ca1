"""A node: listens for clients, and has a process of its own for each run, as every run has one."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from mlbench.cluster.addresses import Address
from mlbench.cluster.session import NodeConfig
from mlbench.cluster.tls import server_context
from mlbench.errors import MlbenchError, UsageError

logger = logging.getLogger(__name__)

_BACKLOG = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """A node's address, and its access control."""

    address: Address
    token: bytes
    certificate: Path | None = None
    """PEM; None: no TLS."""
    key: Path | None = None
    """The certificate's; None: it is in the same file."""
    preload: Sequence[str] = ()
    """Modules that each process imports while it waits for a client."""


def serve_node(config: NodeConfig, listening: Listening, on_ready: Callable[[Address], None]) -> None:
    """Serve one run after another until the process is asked to end.

    Args:
        config: what is served.
        listening: where; with port 0 the kernel chooses one.
        on_ready: called with the address, once clients can connect.

    Raises:
        UsageError: the address is not available, or the certificate cannot be read.
        MlbenchError: a process of a run ends as soon as it is started.
    """
    key = listening.key or listening.certificate
    if listening.certificate and key:
        server_context(listening.certificate, key)
    words = json.dumps(
        {
            "config": config.model_dump(mode="json"),
            "token": listening.token.hex(),
            "certificate": str(listening.certificate or ""),
            "key": str(key or ""),
            "preload": list(listening.preload),
        }
    )
    with _listen(listening.address) as listener:
        host, port = listener.getsockname()[:2]
        _Processes(listener, words, lambda: on_ready(Address(host, port))).serve()


def _listen(address: Address) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(f"cannot listen on {address}: {error.strerror}.", hint="Choose another --listen.") from None
    return listener


class _Processes:
    """One process after another behind one socket; the kernel lets clients wait in between."""

    def __init__(self, listener: socket.socket, words: str, on_ready: Callable[[], None]) -> None:
        self._listener = listener
        self._words = words.encode()
        self._on_ready: Callable[[], None] | None = on_ready
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ending = False

    def serve(self) -> None:
        """Start processes until the signal to end.

        Raises:
            MlbenchError: one ends before a client could connect.
        """
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._end)
        while not self._is_ending:
            is_ready, status = self._serve_one()
            if status and not self._is_ending:
                if not is_ready:
                    raise MlbenchError(f"the node's process left with status {status} as soon as it was started.")
                logger.error("the process of a run left with status %d; a new one is started", status)

    def _serve_one(self) -> tuple[bool, int]:
        """Return whether clients could connect to a process, and with what status it ended."""
        descriptor = self._listener.fileno()
        ready, theirs = os.pipe()
        command = [sys.executable, "-P", "-m", "mlbench.cluster", str(descriptor), str(theirs)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[descriptor, theirs])
        os.close(theirs)
        try:
            if self._is_ending:  # the signal came just now
                return False, 0
            assert self._process.stdin
            with suppress(BrokenPipeError), self._process.stdin as stdin:
                stdin.write(self._words)
            is_ready = bool(os.read(ready, 1))
            if is_ready and self._on_ready:
                self._on_ready()
                self._on_ready = None
            return is_ready, self._process.wait()
        finally:
            os.close(ready)
            self._process.kill()
            self._process.wait()

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._is_ending = True
        if self._process:
            self._process.kill()
