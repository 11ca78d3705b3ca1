"""Both sides of a handshake, over a pair of sockets."""

import json
import socket
import struct
import threading

import networked
import pytest

from mlbench import UsageError
from mlbench.cluster import handshake
from mlbench.cluster.handshake import NotOurProtocolError, RefusedError, greet_client, greet_node


@pytest.fixture
def lines():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Node:
    """Does a node's part in a thread, and keeps what it raised."""

    def __init__(self, line, token=networked.TOKEN):
        self.error = None
        self._thread = threading.Thread(target=self._greet, args=(line, token))
        self._thread.start()

    def _greet(self, line, token):
        try:
            greet_client(line, token)
        except Exception as error:
            self.error = error

    def end(self):
        self._thread.join()
        return self.error


class Recorded:
    """A socket that keeps what passes through it."""

    def __init__(self, line):
        self._line, self.passed = line, b""

    def settimeout(self, seconds):
        self._line.settimeout(seconds)

    def sendall(self, data):
        self.passed += data
        self._line.sendall(data)

    def recv(self, count):
        data = self._line.recv(count)
        self.passed += data
        return data


def words(fields, mark=b"mlbench\x02"):
    body = json.dumps(fields).encode()
    return struct.pack("<8sH", mark, len(body)) + body


def test_both_sides_with_the_secret_agree_and_it_does_not_travel(lines):
    ours, theirs = lines
    node, recorded = Node(theirs), Recorded(ours)
    greet_node(recorded, networked.TOKEN)
    assert node.end() is None
    assert networked.TOKEN not in recorded.passed
    assert networked.TOKEN.hex().encode() not in recorded.passed


def test_a_client_with_another_secret_is_refused_on_both_sides(lines):
    ours, theirs = lines
    node = Node(theirs)
    with pytest.raises(RefusedError, match="wrong token"):
        greet_node(ours, b"another secret of the tests")
    assert str(node.end()) == "a client with a wrong token"


def test_what_a_client_said_once_does_not_admit_another(lines):
    """Who has listened sends the same words again; the node's nonce is another one by then."""
    ours, theirs = lines
    first = Node(theirs)
    recorded = Recorded(ours)
    sent = []
    recorded.sendall = lambda data: (sent.append(data), ours.sendall(data))
    greet_node(recorded, networked.TOKEN)
    assert first.end() is None
    again, far = socket.socketpair()
    with again, far:
        second = Node(far)
        again.sendall(b"".join(sent))
        assert str(second.end()) == "a client with a wrong token"


def test_a_node_without_the_secret_is_found_out_by_the_client(lines):
    ours, theirs = lines

    def pretend():
        for fields in ({"protocol": 1, "mlbench": handshake.__version__, "nonce": "00" * 32}, {"proof": "00" * 32}):
            theirs.sendall(words(fields))

    threading.Thread(target=pretend).start()
    with pytest.raises(RefusedError, match="it does not have this token"):
        greet_node(ours, networked.TOKEN)


def test_another_version_is_named_on_the_side_of_the_client(lines, monkeypatch):
    ours, theirs = lines
    theirs.sendall(words({"protocol": 1, "mlbench": "9.9", "nonce": "00" * 32}))
    with pytest.raises(UsageError, match=r"it has mlbench 9\.9, and this is"):
        greet_node(ours, networked.TOKEN)


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        words({"protocol": 1, "mlbench": "1", "nonce": "00"}),
        words({"protocol": "1", "mlbench": "1", "nonce": "00" * 32}),
        words({"protocol": 1, "mlbench": "1", "nonce": "00" * 32, "more": 1}),
        words([1]),
        struct.pack("<8sH", b"mlbench\x02", 5000) + b"x" * 5000,
        struct.pack("<8sH", b"mlbench\x02", 3) + b"{x}",
    ],
    ids=["HTTP", "short nonce", "text for a number", "more fields", "a list", "too long", "no JSON"],
)
def test_other_protocols_and_malformed_words_are_told_from_ours(lines, said):
    ours, theirs = lines
    theirs.sendall(said)
    with pytest.raises(NotOurProtocolError):
        greet_node(ours, networked.TOKEN)
    with pytest.raises(NotOurProtocolError):
        ours.sendall(said)
        theirs.recv(1000)  # the client's greeting
        ours.sendall(said)
        greet_client(theirs, networked.TOKEN)


def test_a_side_that_closes_is_not_ours(lines):
    ours, theirs = lines
    theirs.close()
    with pytest.raises((NotOurProtocolError, OSError)):
        greet_node(ours, networked.TOKEN)
