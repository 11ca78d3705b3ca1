"""A connection between a client and a node, once each knows the other: messages both ways, none of which blocks.

A message that the network takes at once is sent by the thread that has it. The rest waits in memory for the link's own
thread; how much can wait is limited by those who send, which keep to the other side's capacity.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mlbench.errors import describe_error
from mlbench.execution.instances.messages import Inbox, Message, NoMessageError, encode_message

logger = logging.getLogger(__name__)

OnMessage = Callable[["Link", Message], None]
OnEnd = Callable[["Link", str], None]

LOST_AFTER_S = 30.0
"""Longest time without an acknowledgement from the other machine, even on an idle connection; the kernel's own limit is
two hours. A process that is only busy is not lost: its kernel answers."""

_LAST_WORDS_S = 5.0
_ROOM_BYTES = 256 << 10
_MOST_HEADER_BYTES = 16 << 20
_MOST_ARRAY_BYTES = 4 << 30
_PULSE_MS = 100


class Link:
    """An end of a connection. Any thread may send; messages are handled on the link's own thread."""

    def __init__(self, line: socket.socket, name: str, on_message: OnMessage, on_end: OnEnd) -> None:
        """Take over a connection.

        Args:
            line: the socket, after the handshake.
            name: what the thread is called.
            on_message: called with each message. What it raises ends the link.
            on_end: called once, with why no more messages will come, unless this side closed the link.
        """
        line.setblocking(False)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _give_clock(line, LOST_AFTER_S)
        self._line = line
        self._is_tls = isinstance(line, ssl.SSLSocket)
        self._on_message = on_message
        self._on_end = on_end
        self._inbox = Inbox(
            room_bytes=_ROOM_BYTES, most_header_bytes=_MOST_HEADER_BYTES, most_array_bytes=_MOST_ARRAY_BYTES
        )
        self._waiting: deque[memoryview] = deque()
        self._sending = threading.Lock()  # with TLS, also taken to receive: a session is not for two threads at once
        self._wake_in, self._wake_out = os.pipe()
        self._polls = [select.poll(), select.poll()]  # for reading alone, and for both
        for poll, events in zip(self._polls, (select.POLLIN, select.POLLIN | select.POLLOUT), strict=True):
            poll.register(line, events)
            poll.register(self._wake_in, select.POLLIN)
        self._closing_s = 0.0
        self._is_over = False
        self.last_message_s = time.monotonic()
        """Time of the other side's last message."""
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> None:
        """Begin to receive."""
        self._thread.start()

    @property
    def thread(self) -> int:
        """Return the number of the thread that messages are handled on."""
        assert self._thread.ident
        return self._thread.ident

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; raises `OSError` when the link is closed."""
        left = memoryview(encode_message(kind, arrays, facts))
        with self._sending:
            if self._is_over:
                raise ConnectionError("the connection is closed")
            if not self._waiting:
                left = self._send_now(left)
            if left:
                self._waiting.append(left)
                os.write(self._wake_out, b".")

    def close(self, patience_s: float = _LAST_WORDS_S) -> None:
        """Send what waits, at most for so long, then close the connection; wait until that is done."""
        self._closing_s = time.monotonic() + patience_s
        if self._thread.ident is None:
            self._end("")
            return
        with self._sending:
            if not self._is_over:
                os.write(self._wake_out, b".")
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _send_now(self, left: memoryview) -> memoryview:
        """Send what the network takes at once; return the rest."""
        try:
            while left:
                left = left[self._line.send(left) :]
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        return left

    def _serve(self) -> None:
        reason = "closed the connection"
        try:
            while not self._is_done():
                self._wait()
                if self._waiting:
                    self._send_waiting()
                if not self._receive():
                    break
        except NoMessageError as error:
            reason = f"sent an invalid message ({error})"
        except OSError as error:
            reason = f"is not reached any more: {error.strerror or describe_error(error)}"
        except Exception as error:  # a handler's bug, or wrong contents of a message
            logger.exception("a message could not be handled")
            reason = f"sent a message that could not be handled ({describe_error(error)})"
        self._end(reason)

    def _is_done(self) -> bool:
        return bool(self._closing_s) and (not self._waiting or time.monotonic() > self._closing_s)

    def _wait(self) -> None:
        if self._is_tls and self._line.pending():  # type: ignore[attr-defined]
            return
        poll = self._polls[bool(self._waiting)]
        for descriptor, _ in poll.poll(_PULSE_MS if self._closing_s else None):
            if descriptor == self._wake_in:
                os.read(self._wake_in, 4096)

    def _send_waiting(self) -> None:
        with self._sending:
            while self._waiting:
                left = self._send_now(self._waiting[0])
                if left:
                    self._waiting[0] = left
                    return
                self._waiting.popleft()

    def _receive(self) -> bool:
        """Receive what has arrived, and handle the messages that are complete; return False at the end."""
        try:
            if self._is_tls:
                with self._sending:
                    is_open = self._inbox.fill(self._line)
            else:
                is_open = self._inbox.fill(self._line)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return True
        self.last_message_s = time.monotonic()
        for message in self._inbox.messages():
            self._on_message(self, message)
        return is_open

    def _end(self, reason: str) -> None:
        with self._sending:
            self._is_over = True
            self._waiting.clear()
        self._line.close()
        for descriptor in (self._wake_in, self._wake_out):
            os.close(descriptor)
        if not self._closing_s:
            self._on_end(self, reason)


def _give_clock(line: socket.socket, lost_after_s: float) -> None:
    """Have the kernel end a connection whose other side acknowledges neither what was sent nor a probe, for so long."""
    between_s = max(1, round(lost_after_s / 6))
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        (socket.TCP_KEEPIDLE, 2 * between_s),
        (socket.TCP_KEEPINTVL, between_s),
        (socket.TCP_KEEPCNT, 4),
        (socket.TCP_USER_TIMEOUT, round(lost_after_s * 1000)),
    ):
        line.setsockopt(socket.IPPROTO_TCP, name, value)
