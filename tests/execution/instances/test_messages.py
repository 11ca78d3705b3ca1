import json
import socket
import struct
import threading

import numpy as np
import pytest

from mlbench.execution.instances.messages import Line, NoMessageError


@pytest.fixture
def lines():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Line(ours), Line(theirs)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.arange(24, dtype=np.float16).reshape(2, 3, 4)[:, ::2].swapaxes(0, 2),
        np.array(7.5, np.float32),
        np.zeros((0, 7), np.float32),
        np.array([True, False, True]),
        np.array([1.5, np.nan, np.inf]),
        np.array(["2024-08-28", "NaT"], "M8[D]"),
    ],
    ids=["rows", "strided", "scalar", "empty", "booleans", "not numbers", "dates"],
)
def test_an_array_arrives_as_it_was_sent_whatever_came_before_it(lines, array):
    ours, theirs = lines
    ours.send("complete", [np.array([1], np.int8), array], reason='"quoted"')
    message = theirs.receive()
    assert (message.kind, message.facts) == ("complete", {"reason": '"quoted"'})
    np.testing.assert_array_equal(message.arrays[0], [1])
    assert (message.arrays[1].dtype, message.arrays[1].shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(message.arrays[1], array)
    message.arrays[1][...] = 0  # it is the receiver's own


def test_facts_that_are_equal_and_of_other_types_arrive_as_they_are(lines):
    ours, theirs = lines
    for answer in (True, 1, 1.0, "1", None, [True], [1]):
        ours.send("done", answer=answer)
        assert repr(theirs.receive().facts["answer"]) == repr(answer)


def test_an_array_of_objects_is_not_sent(lines):
    ours, theirs = lines
    with pytest.raises(TypeError, match="objects"):
        ours.send("first_token", [np.array([object()])], test=0)
    ours.send("done")
    assert theirs.receive().kind == "done"


def test_messages_larger_than_the_socket_holds_arrive_whole_and_in_order(lines):
    ours, theirs = lines
    large = np.arange(2**22, dtype=np.int32)
    sender = threading.Thread(target=lambda: [ours.send(name, [large]) for name in ("a", "b")])
    sender.start()
    for name in ("a", "b"):
        message = theirs.receive()
        assert message.kind == name
        np.testing.assert_array_equal(message.arrays[0], large)
    sender.join()


def test_a_message_that_is_cut_off_counts_as_hanging_up():
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(b"\x05\x00\x00\x00\x00\x00\x00\x00")
        assert Line(theirs).receive() is None


def framed(header, body=b"", mark=b"mlbench\x01", header_bytes=None, body_bytes=None):
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    sizes = struct.pack("<8sIQ", mark, header_bytes or len(content), body_bytes or len(body))
    return sizes + content + body


GOOD = {"kind": "done", "facts": {}, "arrays": []}


@pytest.mark.parametrize(
    "data",
    [
        b"Segmentation fault, but not quite\n",
        framed(GOOD, mark=b"mlbench\x02"),
        framed(GOOD, header_bytes=2**32 - 1),
        framed(GOOD, body_bytes=2**63),
        framed(b"\xff{"),
        framed(b"[" * 100_000),
        framed([]),
        framed({"kind": "done"}),
        framed({**GOOD, "kind": None}),
        framed({**GOOD, "arrays": [["<f4", [2]]]}, b"four"),
        framed({**GOOD, "arrays": [["<f4", [1]]]}, b"more than four"),
        framed({**GOOD, "arrays": [["|O", [1]]]}, b"12345678"),
        framed({**GOOD, "arrays": [["no type", [1]]]}),
        framed({**GOOD, "arrays": [["<f4", [-1]]]}),
        framed({**GOOD, "arrays": [["<f4", [2**40, 2**40]]]}),
        framed({**GOOD, "arrays": ["<f4"]}),
        framed({**GOOD, "arrays": {"a": 1}}),
    ],
    ids=range(17),
)
def test_what_is_no_message_is_refused_and_nothing_of_its_sizes_is_believed(data):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(data)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(NoMessageError):
            Line(theirs).receive()
