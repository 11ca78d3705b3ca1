import socket
import threading

import numpy as np
import pytest

from mlbench.execution.instances.messages import Line


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
    ],
    ids=["rows", "strided", "scalar", "empty", "booleans", "not numbers"],
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
