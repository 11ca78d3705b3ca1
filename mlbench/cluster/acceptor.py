"""Accepts connections of clients, one thread each until it is known who they are."""

from __future__ import annotations

import logging
import socket
import ssl
import threading

from mlbench.cluster.handshake import HANDSHAKE_S, NotOurProtocolError, RefusedError, greet_client
from mlbench.cluster.link import Link
from mlbench.cluster.session import Session

logger = logging.getLogger(__name__)

_MOST_STRANGERS = 32
"""How many connections may be in their handshake; more wait in the kernel's queue."""
_PULSE_S = 0.1


class Acceptor:
    """Hands connections of clients that have the token to a session, and closes all others."""

    def __init__(self, listener: socket.socket, token: bytes, tls: ssl.SSLContext | None, session: Session) -> None:
        """Store where clients come from, and what they must have."""
        self._listener = listener
        self._token = token
        self._tls = tls
        self._session = session
        self._strangers = threading.BoundedSemaphore(_MOST_STRANGERS)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="mlbench-acceptor", daemon=True)

    def start(self) -> None:
        """Begin to accept."""
        self._listener.settimeout(_PULSE_S)  # another process may be the first to accept, or this one be stopped
        self._thread.start()

    def stop(self) -> None:
        """Accept no more; who connects from now on waits for the next process."""
        self._is_over.set()

    def _accept(self) -> None:
        while not self._is_over.is_set():
            self._strangers.acquire()
            try:
                line, peer = self._listener.accept()
            except OSError as error:
                self._strangers.release()
                if not isinstance(error, TimeoutError):  # such as when this process has all the files open that it may
                    logger.warning("a client could not connect: %s", error.strerror)
                    self._is_over.wait(_PULSE_S)
                continue
            threading.Thread(target=self._admit, args=(line, peer), name="mlbench-stranger", daemon=True).start()

    def _admit(self, line: socket.socket, peer: tuple[str, int]) -> None:
        try:
            line.settimeout(HANDSHAKE_S)
            if self._tls:
                line = self._tls.wrap_socket(line, server_side=True)
            greet_client(line, self._token)
            Link(line, "mlbench-node-link", self._session.take, self._session.note_end).start()
        except (NotOurProtocolError, RefusedError, OSError) as error:
            logger.warning("%s was refused: %s", peer[0], error)
            line.close()
        finally:
            self._strangers.release()
