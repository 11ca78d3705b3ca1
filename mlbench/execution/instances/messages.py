"""Messages between a run and its instances: a few facts, and arrays as they are in memory. Nothing is pickled.

======================  ===========================================  ================================================
to an instance          facts                                        arrays
======================  ===========================================  ================================================
``start``               builder, payload, number, of
``load``, ``unload``    wants_lengths                                indices
``warm_up``                                                          indices
``vary``                variations (by index)
``samples``             test, is_flushed                             serials, indices
``flush``
``report``              what
======================  ===========================================  ================================================

======================  ===========================================  ================================================
from an instance        facts                                        arrays
======================  ===========================================  ================================================
``done``                what was asked                               lengths, where they were
``refused``             an error, the fields of an `ErrorReport`
``complete``            test, is_one, has_counts                     serials, indices, token counts, outputs
``first_token``         test                                         serials, indices, tokens
``fail``                test, reason                                 serials, indices
``give_up``             test, reason                                 serials, of which those still open fail
``invalidate``          test, reason
``step``                done, of
======================  ===========================================  ================================================

``start``, ``load``, ``warm_up``, ``vary`` and ``report`` are answered with ``done`` or ``refused``, in their order.
What differs from one query to the next is in arrays: headers repeat, and each is parsed once.

Messages are not signed, since outputs may be large and are sent while something is measured. The socket has no name,
its descriptor is not inherited, and a receiver validates every size and form: an invalid message ends the instance by
name.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

_MARK = b"mlbench\x01"
_SIZES = struct.Struct(f"<{len(_MARK)}sIQ")
"""Start of a message: a mark, the size of its header, and the size of all arrays."""
_MOST_HEADER_BYTES = 64 << 20
_MOST_ARRAY_BYTES = 64 << 30
_ROOM_BYTES = 32 << 10
_KNOWN_FORMS = 1024
_SHORT_HEADER_BYTES = 512
"""A header that is no longer may be that of many messages."""


_ArrayForm = tuple[tuple[int, ...], np.dtype]


class NoMessageError(Exception):
    """The received data is not a message; nothing after it can be read either."""


@dataclass(slots=True)  # not frozen, for what that costs: as `Samples`
class Message:
    """One of them."""

    kind: str
    facts: Mapping[str, Any]
    """May be those of other messages too: for reading alone."""
    arrays: Sequence[np.ndarray]


def encode_message(kind: str, arrays: Sequence[np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """Return a message as it travels, in one piece: the copy costs less than waking the receiver for each array."""
    sent = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in map(np.asarray, arrays)]
    forms = tuple([(array.shape, array.dtype) for array in sent])
    try:
        begin = _known_begin(kind, forms, tuple(facts), *facts.values())
    except TypeError:  # facts that are lists or mappings
        begin = _begin(kind, forms, tuple(facts), *facts.values())
    bodies: list[Any] = sent  # NumPy lends out their memory
    return b"".join([begin, *bodies])


def _begin(kind: str, forms: Sequence[_ArrayForm], names: Sequence[str], *values: Any) -> bytes:
    """Return all of a message before its arrays: most have a few facts, and arrays of a few forms."""
    if any(dtype.hasobject for _, dtype in forms):
        raise TypeError("an array of objects does not travel")
    facts = json.dumps(dict(zip(names, values, strict=True)))
    arrays = json.dumps([[dtype.str, shape] for shape, dtype in forms])
    header = f'{{"kind": "{kind}", "facts": {facts}, "arrays": {arrays}}}'.encode()
    body_bytes = sum(dtype.itemsize * math.prod(shape) for shape, dtype in forms)
    return _SIZES.pack(_MARK, len(header), body_bytes) + header


_known_begin = lru_cache(_KNOWN_FORMS, typed=True)(_begin)  # typed: ``True`` and ``1`` are two facts


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of a message, before its arrays."""

    kind: str
    facts: Mapping[str, Any]
    forms: Sequence[_ArrayForm]


class Inbox:
    """The bytes that have arrived, and the messages in them. For one thread.

    Small messages are cut out of one buffer, many of them for one call of the kernel; the arrays of a large one are
    received where they stay.
    """

    def __init__(
        self,
        *,
        room_bytes: int = _ROOM_BYTES,
        most_header_bytes: int = _MOST_HEADER_BYTES,
        most_array_bytes: int = _MOST_ARRAY_BYTES,
    ) -> None:
        """Store how much is received at once of what is copied out, and how large a message may be."""
        self._most_header_bytes, self._most_array_bytes = most_header_bytes, most_array_bytes
        self._room = bytearray(room_bytes)
        self._begin = self._end = 0
        self._header = b""
        self._body: bytearray | None = None
        self._filled = 0

    def fill(self, line: socket.socket) -> bool:
        """Receive once; return False when the other side has closed.

        Raises:
            OSError: nothing can be received, or nothing has arrived.
        """
        if self._body is not None:
            got = line.recv_into(memoryview(self._body)[self._filled :])
            self._filled += got
            return bool(got)
        if self._begin == self._end:
            self._begin = self._end = 0
        elif self._begin:
            self._room[: self._end - self._begin] = self._room[self._begin : self._end]
            self._begin, self._end = 0, self._end - self._begin
        if self._end == len(self._room):  # a header as long as that
            self._room.extend(bytes(len(self._room)))
        got = line.recv_into(memoryview(self._room)[self._end :])
        self._end += got
        return bool(got)

    def messages(self) -> Iterator[Message]:
        """Yield the messages that are complete.

        Raises:
            NoMessageError: what has arrived is not the beginning of a message.
        """
        while (message := self.next()) is not None:
            yield message

    def next(self) -> Message | None:
        """Return the next message that is complete; None where none is, and raise as `messages`."""
        if self._body is None and not self._begin_body():
            return None
        assert self._body is not None
        if self._filled < len(self._body):
            return None
        body, self._body = self._body, None
        return _decode_message(self._header, body)

    def _begin_body(self) -> bool:
        """Cut a header out of the buffer, and what has arrived of the arrays behind it; False: it is not whole yet."""
        begin, available = self._begin, self._end - self._begin
        if available < _SIZES.size:
            return False
        mark, header_bytes, body_bytes = _SIZES.unpack_from(self._room, begin)
        if mark != _MARK or header_bytes > self._most_header_bytes or body_bytes > self._most_array_bytes:
            raise NoMessageError(f"it begins with {bytes(mark)!r}")
        if available < _SIZES.size + header_bytes:
            return False
        begin += _SIZES.size
        self._header = bytes(self._room[begin : begin + header_bytes])
        begin += header_bytes
        self._filled = min(body_bytes, self._end - begin)
        arrived = self._room[begin : begin + self._filled]
        self._begin = begin + self._filled
        if self._filled == body_bytes:
            self._body = arrived
            return True
        try:
            self._body = bytearray(body_bytes)
        except MemoryError:
            raise NoMessageError(f"it has {body_bytes} bytes") from None
        self._body[: self._filled] = arrived
        return True


class MessageSink(Protocol):
    """An end of a connection, seen by those who send over it."""

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; raises `OSError` when the other side is gone."""


class Line:
    """An end of the socket between the two. Any thread may send, one receives."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._sending = threading.Lock()
        self._inbox = Inbox()

    def fileno(self) -> int:
        """Return the descriptor, for `selectors`."""
        return self._line.fileno()

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message.

        Raises:
            OSError: the other side is gone.
        """
        whole = encode_message(kind, arrays, facts)
        with self._sending:
            self._line.sendall(whole)

    def receive(self) -> Message | None:
        """Wait for the next message; None when the other side is gone.

        Raises:
            NoMessageError: what came is none.
        """
        while (message := self._inbox.next()) is None:
            if not self._fill():
                return None
        return message

    def receive_arrived(self, take: Callable[[Message], None]) -> bool:
        """Hand on the messages that have arrived, once there is something; return False when the other side is gone.

        Raises:
            NoMessageError: what came is none.
        """
        is_open = self._fill()
        for message in self._inbox.messages():
            take(message)
        return is_open

    def _fill(self) -> bool:
        try:
            return self._inbox.fill(self._line)
        except ConnectionError:
            return False


def _decode_message(header: bytes | bytearray, body: bytearray) -> Message:
    """Return the received message; its arrays are in ``body``.

    Raises:
        NoMessageError: it is none.
    """
    try:
        is_short = len(header) <= _SHORT_HEADER_BYTES
        read = _known_header(bytes(header)) if is_short else _read_header(header)
        return Message(read.kind, read.facts, _arrays(read.forms, body))
    except (ValueError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise NoMessageError(str(error)) from None


def _read_header(header: bytes | bytearray) -> _Header:
    fields = json.loads(header)
    kind, facts, forms = (fields.get(name) for name in ("kind", "facts", "arrays"))
    if not (isinstance(kind, str) and isinstance(facts, dict) and isinstance(forms, list)):
        raise ValueError("it has no kind, facts or arrays")
    return _Header(kind, facts, [(tuple(shape), _checked_dtype(name, tuple(shape))) for name, shape in forms])


_known_header = lru_cache(_KNOWN_FORMS)(_read_header)


def _arrays(forms: Sequence[_ArrayForm], body: bytearray) -> list[np.ndarray]:
    arrays: list[np.ndarray] = []
    start = 0
    for shape, dtype in forms:
        array: np.ndarray = np.ndarray(shape, dtype, body, start)  # raises if the body is too short
        arrays.append(array)
        start += array.nbytes
    if start != len(body):
        raise ValueError(f"arrays of {start} bytes, and {len(body)} came")
    return arrays


@lru_cache(_KNOWN_FORMS, typed=True)
def _checked_dtype(name: str, shape: tuple[int, ...]) -> np.dtype:
    """Return the dtype of an array whose form arrived; raises where there is no such array."""
    dtype = np.dtype(name)
    if dtype.hasobject or not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError(f"an array of {dtype} and shape {list(shape)}")
    return dtype


def numbers(values: Sequence[int]) -> np.ndarray:
    """Return indices or serial numbers as they travel."""
    return np.array(values, np.int64)
