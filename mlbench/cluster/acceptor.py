"""Accepts connections of clients, one thread each until it is known who they are.

Anybody who reaches the port may connect, and say nothing. So a connection has a short time to prove that it has the
token, an address has few places for those that have not, and where places are short the newest get them: those that are
silent lose theirs first, then the oldest.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

from mlbench.cluster.handshake import NotOurProtocolError, RefusedError, greet_client
from mlbench.cluster.link import Link
from mlbench.cluster.session import Session

logger = logging.getLogger(__name__)

_PULSE_S = 0.1
_SITE_BITS = 64
"""Bits that begin an IPv6 address: who has one address has all that begin like it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StrangerLimits:
    """Limits of connections that have not proved that they have the token."""

    places: int = 32
    places_of_address: int = 8
    admitted_within_s: float = 5.0
    """For the whole handshake, TLS included."""
    silent_s: float = 1.0
    """Silence after which a connection is the first to be dropped when the limit is reached."""


STRANGER_LIMITS = StrangerLimits()


@dataclass(slots=True, eq=False)
class _Stranger:
    """A connection in its handshake."""

    line: socket.socket
    peer: str
    site: str
    since_s: float
    has_greeted: bool = False
    why_ended: str = ""

    def note_greeting(self) -> None:
        """Note that it speaks our protocol."""
        self.has_greeted = True

    def end(self, reason: str) -> None:
        """Wake its thread up, which closes it."""
        self.why_ended = reason
        with suppress(OSError):
            socket.socket.shutdown(self.line, socket.SHUT_RDWR)  # of TLS too: no more than the file descriptor is used


class Acceptor:
    """Hands connections of clients that have the token to a session, and closes all others."""

    def __init__(
        self,
        listener: socket.socket,
        token: bytes,
        tls: ssl.SSLContext | None,
        session: Session,
        limits: StrangerLimits = STRANGER_LIMITS,
    ) -> None:
        """Store where clients come from, and what they must have."""
        self._listener = listener
        self._token = token
        self._tls = tls
        self._session = session
        self._limits = limits
        self._strangers: list[_Stranger] = []
        self._counting = threading.Lock()
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
            self._end_late()
            try:
                line, peer = self._listener.accept()
            except OSError as error:
                if not isinstance(error, TimeoutError):  # such as when this process has all the files open that it may
                    logger.warning("a client could not connect: %s", error.strerror)
                    self._is_over.wait(_PULSE_S)
                continue
            stranger = _Stranger(line, peer[0], _site_of(peer[0]), time.monotonic())
            self._make_room(stranger)
            threading.Thread(target=self._admit, args=(stranger,), name="mlbench-stranger", daemon=True).start()

    def _end_late(self) -> None:
        limit_s = self._limits.admitted_within_s
        with self._counting:
            for each in self._strangers:
                if time.monotonic() - each.since_s > limit_s:
                    each.end(f"no proof of the token within {limit_s:g} s")

    def _make_room(self, stranger: _Stranger) -> None:
        """Take a place for a connection, and where there is none that of another: of its own address, or of most."""
        with self._counting:
            taken = Counter(each.site for each in self._strangers)
            site = ""
            if taken[stranger.site] >= self._limits.places_of_address:
                site = stranger.site
            elif taken.total() >= self._limits.places:
                site = taken.most_common(1)[0][0]
            if site:
                last = min((each for each in self._strangers if each.site == site), key=self._standing)
                last.end("its place was needed")
                self._strangers.remove(last)
            self._strangers.append(stranger)

    def _standing(self, stranger: _Stranger) -> tuple[bool, float]:
        """Return the sort key of connections; the first one is dropped first."""
        is_silent = not stranger.has_greeted and time.monotonic() - stranger.since_s > self._limits.silent_s
        return not is_silent, stranger.since_s

    def _admit(self, stranger: _Stranger) -> None:
        try:
            stranger.line.settimeout(self._limits.admitted_within_s)
            if self._tls:
                stranger.line = self._tls.wrap_socket(stranger.line, server_side=True, do_handshake_on_connect=False)
                stranger.line.do_handshake()
            greet_client(stranger.line, self._token, self._limits.admitted_within_s, stranger.note_greeting)
            if stranger.why_ended:
                raise RefusedError(stranger.why_ended)
            Link(stranger.line, "mlbench-node-link", self._session.take, self._session.note_end).start()
        except (NotOurProtocolError, RefusedError, OSError, ValueError) as error:
            logger.warning("%s was refused: %s", stranger.peer, stranger.why_ended or error)
            stranger.line.close()
        finally:
            with self._counting:
                if stranger in self._strangers:
                    self._strangers.remove(stranger)


def _site_of(host: str) -> str:
    """Return who an address belongs to, as far as it says that."""
    plain = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(plain, ipaddress.IPv6Address) and not plain.ipv4_mapped:
        return str(ipaddress.ip_network((plain, _SITE_BITS), strict=False))
    return str(getattr(plain, "ipv4_mapped", None) or plain)
