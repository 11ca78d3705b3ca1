"""The first messages of a connection: they identify both sides, and prove that both have the token without sending it.

=========  ===================================================================================
client     protocol, version, a nonce
node       protocol, version, a nonce; or why it refuses
client     HMAC-SHA-256 of "client" and both nonces, keyed with the token
node       HMAC-SHA-256 of "node" and both nonces, keyed with the token; or why it refuses
=========  ===================================================================================

Who listens on the way learns no token, and cannot use what it heard for another connection. What follows is neither
signed nor encrypted unless the connection is TLS: outside a network that you trust, use a certificate.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Self, TypeVar

from mlbench.errors import UsageError, one_line
from mlbench.version import __version__

PROTOCOL = 1
HANDSHAKE_S = 30.0
"""Time limit of a client for a message: a node's process may be starting."""

_MARK = b"mlbench\x02"
_PREFIX = struct.Struct(f"<{len(_MARK)}sH")
_MOST_BYTES = 4096
_NONCE_BYTES = 32
_LEAST_S = 1e-3


class NotOurProtocolError(Exception):
    """The other side says something else than a node or a client of mlbench."""


class ClosedError(NotOurProtocolError):
    """The other side closes the connection without a word."""


class RefusedError(Exception):
    """The other side refuses the connection, or is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """The first words of either side."""

    protocol: int
    mlbench: str
    nonce: str
    """Hexadecimal."""

    def __post_init__(self) -> None:
        if type(self.protocol) is not int or not isinstance(self.mlbench, str) or not isinstance(self.nonce, str):
            raise ValueError("a greeting of the wrong types")
        if len(bytes.fromhex(self.nonce)) != _NONCE_BYTES:
            raise ValueError("a nonce of the wrong length")

    @classmethod
    def new(cls) -> Self:
        """Return a greeting of this version with a nonce of its own."""
        return cls(protocol=PROTOCOL, mlbench=__version__, nonce=secrets.token_hex(_NONCE_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """That a side has the token."""

    proof: str

    def __post_init__(self) -> None:
        if not isinstance(self.proof, str) or not self.proof.isascii():
            raise ValueError("a proof of the wrong type")

    @classmethod
    def of(cls, side: str, token: bytes, ours: Greeting, theirs: Greeting) -> Self:
        """Return the proof of a side, ``client`` or ``node``; the client's greeting is the first of the two."""
        words = f"mlbench {side} {ours.nonce} {theirs.nonce}".encode()
        return cls(proof=hmac.digest(token, words, "sha256").hex())

    def equals(self, other: Proof) -> bool:
        """Compare two proofs, in a time that does not depend on where they differ."""
        return hmac.compare_digest(self.proof, other.proof)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The handshake failed; has the reason."""

    refused: str


_Words = TypeVar("_Words", Greeting, Proof)


def greet_node(line: socket.socket, token: bytes) -> None:
    """Do the client's part.

    Raises:
        NotOurProtocolError: the other side is no node.
        RefusedError: it refuses this client, or does not have the token.
        UsageError: it is of another version.
        OSError: the connection failed, or the other side is silent.
    """
    over_s = time.monotonic() + HANDSHAKE_S
    ours = Greeting.new()
    _send(line, asdict(ours))
    theirs = _receive(line, Greeting, over_s)
    if (theirs.protocol, theirs.mlbench) != (ours.protocol, ours.mlbench):
        raise UsageError(
            f"it has mlbench {one_line(theirs.mlbench)}, and this is {ours.mlbench}.",
            hint="Install the same version on both sides.",
        )
    _send(line, asdict(Proof.of("client", token, ours, theirs)))
    if not _receive(line, Proof, over_s).equals(Proof.of("node", token, ours, theirs)):
        raise RefusedError("it does not have this token")


def greet_client(
    line: socket.socket, token: bytes, within_s: float = HANDSHAKE_S, on_greeting: Callable[[], None] = lambda: None
) -> None:
    """Do the node's part.

    Args:
        line: to the other side.
        token: that it must have.
        within_s: how long all of it may take.
        on_greeting: called when the other side has said its first words.

    Raises:
        NotOurProtocolError: the other side is no client.
        RefusedError: it does not have the token, or is of another version.
        OSError: the connection failed, or the other side is silent.
    """
    over_s = time.monotonic() + within_s
    theirs, ours = _receive(line, Greeting, over_s), Greeting.new()
    on_greeting()
    _send(line, asdict(ours))
    if (theirs.protocol, theirs.mlbench) != (ours.protocol, ours.mlbench):
        raise RefusedError(f"a client with mlbench {one_line(theirs.mlbench)}")
    proof = _receive(line, Proof, over_s)
    if not proof.equals(Proof.of("client", token, theirs, ours)):
        _send(line, asdict(Refusal(refused="wrong token")))
        raise RefusedError("a client with a wrong token")
    _send(line, asdict(Proof.of("node", token, theirs, ours)))


def _send(line: socket.socket, fields: Mapping[str, object]) -> None:
    body = json.dumps(fields).encode() + b"\r\n\r\n"  # a server of another protocol answers a line at once
    line.sendall(_PREFIX.pack(_MARK, len(body)) + body)


def _receive(line: socket.socket, kind: type[_Words], over_s: float) -> _Words:
    mark, size = _PREFIX.unpack(_read(line, _PREFIX.size, over_s))
    if mark != _MARK or size > _MOST_BYTES:
        raise NotOurProtocolError(f"it says {mark!r}")
    try:
        fields = json.loads(_read(line, size, over_s))
        if isinstance(fields, dict) and isinstance(reason := fields.get("refused"), str):
            raise RefusedError(one_line(reason))
        return kind(**fields)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotOurProtocolError(one_line(error)) from None


def _read(line: socket.socket, count: int, over_s: float) -> bytes:
    found = b""
    while len(found) < count:
        line.settimeout(max(_LEAST_S, over_s - time.monotonic()))
        part = line.recv(count - len(found))
        if not part and not found:
            raise ClosedError("it closes the connection")
        if not part:
            raise NotOurProtocolError(f"it says {found!r}, and closes")
        found += part
    return found
