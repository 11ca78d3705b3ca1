"""What a run and its instances say to each other: a few facts, and arrays as they lie in memory. Nothing is pickled.

======================  ===========================================  ================================================
to an instance          facts                                        arrays
======================  ===========================================  ================================================
``start``               builder, payload, number, of
``load``, ``unload``    wants_lengths                                indices
``warm_up``                                                          indices
``vary``                variations (by index)
``samples``             test, first (serial number), is_flushed      indices
``flush``
``tell``                what
======================  ===========================================  ================================================

======================  ===========================================  ================================================
from an instance        facts                                        arrays
======================  ===========================================  ================================================
``done``                what was asked                               lengths, where they were
``refused``             an error, as `told` gives it
``complete``            test, is_one, has_counts                     serials, indices, token counts, outputs
``first_token``         test                                         serials, indices, tokens
``fail``                test, reason                                 serials, indices
``give_up``             test, reason                                 serials, of which those still open fail
``step``                done, of
======================  ===========================================  ================================================

``start``, ``load``, ``warm_up``, ``vary`` and ``tell`` are answered with ``done`` or ``refused``, in their order.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_SIZES = struct.Struct("<IQ")  # bytes of the header, and of all arrays


@dataclass(frozen=True, slots=True)
class Message:
    """One of them."""

    kind: str
    facts: Mapping[str, Any]
    arrays: Sequence[np.ndarray]


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
        sent = [np.asarray(array, order="C") for array in arrays]
        forms = [(array.dtype.str, array.shape) for array in sent]
        header = json.dumps({"kind": kind, "facts": facts, "arrays": forms}).encode()
        sizes = _SIZES.pack(len(header), sum(array.nbytes for array in sent))
        # in one piece: the copy costs less than waking the other side for each array
        whole = b"".join([sizes, header, *(array.reshape(-1).view(np.uint8).data for array in sent)])
        with self._sending:
            self._line.sendall(whole)

    def receive(self) -> Message | None:
        """Wait for the next message; None when the other side is gone."""
        sizes = self._read(_SIZES.size)
        if sizes is None:
            return None
        header_bytes, body_bytes = _SIZES.unpack(sizes)
        header, body = self._read(header_bytes), self._read(body_bytes)
        if header is None or body is None:
            return None
        values = json.loads(header)
        arrays: list[np.ndarray] = []
        start = 0
        for dtype, shape in values["arrays"]:
            arrays.append(np.ndarray(shape, dtype, buffer=body, offset=start))
            start += arrays[-1].nbytes
        return Message(values["kind"], values["facts"], arrays)

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


def numbers(values: Sequence[int]) -> np.ndarray:
    """Return indices or serial numbers as they travel."""
    return np.array(values, np.int64)
