"""Signed messages over a pipe: from a run's process to its parent.

A message is a JSON object. It is sent in pieces of a line each, short enough for the kernel to write each as a whole:
whatever else is written to the pipe lands between lines and spoils none. Each line is

    <signature> <number> <+ when more pieces follow, or .> <piece>

The signature is made with a key that only the two sides have. It protects against what gets hold of the pipe by
accident or from another process: stray prints, an inherited descriptor, a line that is sent twice. It does not protect
against code in the run's own process, which could take the key from its memory; there a plugin and mlbench share
everything, and an engine's claims are checked against LoadGen's logs and spot checks instead.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_MESSAGE_BYTES = 64 << 20
_PIECE_BYTES = 3500
"""With all that stands before it below the 4,096 bytes that Linux writes to a pipe as a whole."""
_LONGEST_LINE_BYTES = 4096
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Stray:
    """Data on the pipe that is not a message."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Received:
    """A message that arrived whole and signed, as JSON that is not parsed yet."""

    body: bytes


def new_key() -> str:
    """Return a key for one run."""
    return secrets.token_hex(_KEY_BYTES)


class Sender:
    """Writes messages. Any thread may send; a copy of this process, which a plugin has forked, ends when it tries to.

    Such a copy would go on with the run as if it were the run, and the first of the two would be believed.
    """

    def __init__(self, descriptor: int, key: str) -> None:
        """Store the pipe's end, which processes that are started from here do not inherit."""
        os.set_inheritable(descriptor, False)
        self._descriptor = descriptor
        self._key = bytes.fromhex(key)
        self._lock = threading.Lock()
        self._number = 0
        self._process = os.getpid()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Text that is not Unicode arrives with question marks.

        Raises:
            ValueError: a value is NaN or an infinity, or the message is too long.
            TypeError: a value is none of JSON's.
            OSError: the other side is gone.
        """
        if os.getpid() != self._process:
            os.write(2, b"a copy of the run's process, which was forked, ends here\n")
            os._exit(1)
        body = json.dumps(message, allow_nan=False, ensure_ascii=False).encode("utf-8", "replace")
        if len(body) > LONGEST_MESSAGE_BYTES:
            raise ValueError(f"a message of {len(body)} bytes is longer than {LONGEST_MESSAGE_BYTES}")
        with self._lock:
            for start in range(0, len(body), _PIECE_BYTES):
                self._number += 1
                mark = b"+" if start + _PIECE_BYTES < len(body) else b"."
                content = b"%d %s %s" % (self._number, mark, body[start : start + _PIECE_BYTES])
                # a line break before it too, for whatever stands there without one
                os.write(self._descriptor, b"\n%s %s\n" % (_signature(self._key, content), content))


class Receiver:
    """Parses data from the pipe: messages, and the rest."""

    def __init__(self, key: str) -> None:
        self._key = bytes.fromhex(key)
        self._number = 0
        self._body = bytearray()
        self._unfinished = b""

    def feed(self, data: bytes) -> Iterator[Received | Stray]:
        """Yield what these bytes complete; empty bytes: no more are coming."""
        *lines, self._unfinished = (self._unfinished + data).split(b"\n")
        for line in lines:
            if line:
                whole = self._take(line)
                if whole:
                    yield whole
        if self._unfinished and (not data or len(self._unfinished) > _LONGEST_LINE_BYTES):
            content, self._unfinished = self._unfinished, b""
            yield Stray(content)

    def _take(self, line: bytes) -> Received | Stray | None:
        """Take in a line; return what is whole with it: a message, or what belongs to none."""
        signature, _, content = line.partition(b" ")
        if not hmac.compare_digest(signature, _signature(self._key, content)):
            return Stray(line + b"\n")
        number, mark, piece = content.split(b" ", maxsplit=2)
        if int(number) != self._number + 1:  # sent before, and sent again
            return Stray(line + b"\n")
        self._number += 1
        self._body += piece
        if len(self._body) > LONGEST_MESSAGE_BYTES or mark == b".":
            body, self._body = bytes(self._body), bytearray()
            return Received(body)
        return None


def _signature(key: bytes, content: bytes) -> bytes:
    return hmac.digest(key, content, "sha256").hex().encode()
