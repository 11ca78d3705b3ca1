"""Messages between a run and its instances: a few facts, and arrays as they are in memory. Nothing is pickled.

======================  ===========================================  ================================================
to an instance          facts                                        arrays
======================  ===========================================  ================================================
``start``               builder, payload, number, of
``load``, ``unload``    wants_lengths                                indices
``warm_up``                                                          indices
``vary``                variations (by index)
``samples``             test, first (serial number), is_flushed      indices
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

Messages are not signed, since outputs may be large and are sent while something is measured. The socket has no name,
its descriptor is not inherited, and a receiver validates every size and form: an invalid message ends the instance by
name.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

_MARK = b"mlbench\x01"
SIZES = struct.Struct(f"<{len(_MARK)}sIQ")
"""What a message begins with: a mark, the bytes of its header, and those of all arrays."""
_MOST_HEADER_BYTES = 64 << 20
_MOST_ARRAY_BYTES = 64 << 30
_KNOWN_FORMS = 1024


class NoMessageError(Exception):
    """The received data is not a message; nothing after it can be read either."""


@dataclass(frozen=True, slots=True)
class Message:
    """One of them."""

    kind: str
    facts: Mapping[str, Any]
    arrays: Sequence[np.ndarray]


def encode_message(kind: str, arrays: Sequence[np.ndarray], facts: Mapping[str, Any]) -> bytes:
    """Return a message as it travels, in one piece: the copy costs less than waking the receiver for each array."""
    sent = [array if array.flags.c_contiguous else np.ascontiguousarray(array) for array in map(np.asarray, arrays)]
    forms = ", ".join([_form_text(array.dtype, array.shape) for array in sent])
    header = f'{{"kind": "{kind}", "facts": {json.dumps(facts)}, "arrays": [{forms}]}}'.encode()
    sizes = SIZES.pack(_MARK, len(header), sum([array.nbytes for array in sent]))
    return b"".join([sizes, header, *[array.reshape(-1).view(np.uint8).data for array in sent]])


@lru_cache(_KNOWN_FORMS)
def _form_text(dtype: np.dtype, shape: tuple[int, ...]) -> str:
    """Return the JSON of an array's form; most messages have arrays of a few forms."""
    return json.dumps([dtype.str, shape])


def check_sizes(
    begin: bytes | bytearray, *, most_header_bytes: int = _MOST_HEADER_BYTES, most_array_bytes: int = _MOST_ARRAY_BYTES
) -> tuple[int, int]:
    """Return how many bytes of header and of arrays follow the first ones of a message.

    Raises:
        NoMessageError: these are not the first bytes of a message, or it is larger than allowed.
    """
    mark, header_bytes, body_bytes = SIZES.unpack(begin)
    if mark != _MARK or header_bytes > most_header_bytes or body_bytes > most_array_bytes:
        raise NoMessageError(f"it begins with {bytes(mark)!r}")
    return header_bytes, body_bytes


class MessageSink(Protocol):
    """An end of a connection, seen by those who send over it."""

    def send(self, kind: str, arrays: Sequence[np.ndarray] = (), **facts: Any) -> None:
        """Send a message; raises `OSError` when the other side is gone."""


class Line:
    """An end of the socket between the two. Any thread may send, one receives."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._sending = threading.Lock()

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
        sizes = self._read(SIZES.size)
        if sizes is None:
            return None
        header_bytes, body_bytes = check_sizes(sizes)
        try:
            header, body = self._read(header_bytes), self._read(body_bytes)
        except MemoryError:
            raise NoMessageError(f"it has {body_bytes} bytes") from None
        return None if header is None or body is None else decode_message(header, body)

    def _read(self, count: int) -> bytearray | None:
        buffer = bytearray(count)
        left = memoryview(buffer)
        while left:
            try:
                got = self._line.recv_into(left)
            except ConnectionError:
                return None
            if not got:
                return None
            left = left[got:]
        return buffer


def decode_message(header: bytes | bytearray, body: bytearray) -> Message:
    """Return what was received as a message; its arrays are in ``body``.

    Raises:
        NoMessageError: it is none.
    """
    try:
        fields = json.loads(header)
        kind, facts, forms = (fields.get(name) for name in ("kind", "facts", "arrays"))
        if isinstance(kind, str) and isinstance(facts, dict) and isinstance(forms, list):
            return Message(kind, facts, _arrays(forms, body))
        raise ValueError("it has no kind, facts or arrays")
    except (ValueError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise NoMessageError(str(error)) from None


def _arrays(forms: Sequence[Any], body: bytearray) -> list[np.ndarray]:
    arrays: list[np.ndarray] = []
    start = 0
    for name, shape in forms:
        sizes = tuple(shape)
        arrays.append(np.ndarray(sizes, _checked_dtype(name, sizes), buffer=body, offset=start))  # raises if too short
        start += arrays[-1].nbytes
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
