"""Two links over a pair of sockets."""

import queue
import socket
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mlbench.cluster.link import Link
from mlbench.execution.instances.messages import encode_message


class End:
    """A link that keeps what it receives."""

    def __init__(self, line):
        self.messages, self.ends = queue.SimpleQueue(), queue.SimpleQueue()
        self.link = Link(line, "test", lambda link, message: self.take(message), lambda link, why: self.ends.put(why))
        self.link.start()

    def take(self, message):
        self.messages.put(message)

    def receive(self):
        return self.messages.get(timeout=30)


@pytest.fixture
def sockets():
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
    with listener, ours, theirs:
        yield ours, theirs


@pytest.fixture
def ends(sockets):
    ours, theirs = map(End, sockets)
    yield ours, theirs
    ours.link.close()
    theirs.link.close()


def test_small_messages_arrive_in_order(ends):
    ours, theirs = ends
    for number in range(2000):
        ours.link.send("samples", [np.array([number])], test=number)
    for number in range(2000):
        message = theirs.receive()
        assert (message.kind, message.facts, message.arrays[0].tolist()) == ("samples", {"test": number}, [number])


def test_sending_more_than_the_network_takes_does_not_block_and_all_of_it_arrives(ends):
    ours, theirs = ends
    large = np.arange(4 << 20, dtype=np.int32)
    for number in range(3):  # 48 MiB, before the other side is looked at
        ours.link.send("samples", [large + number], test=number)
    ours.link.send("flush")
    for number in range(3):
        np.testing.assert_array_equal(theirs.receive().arrays[0], large + number)
    assert theirs.receive().kind == "flush"


def test_a_long_header_arrives(ends):
    ours, theirs = ends
    text = "x" * (1 << 20)
    ours.link.send("done", answer=text)
    assert theirs.receive().facts == {"answer": text}


def test_closing_sends_what_waits_and_the_other_side_says_that_it_was_closed(ends):
    ours, theirs = ends
    ours.link.send("samples", [np.zeros(8 << 20, np.uint8)])
    ours.link.close()
    assert theirs.receive().arrays[0].nbytes == 8 << 20
    assert theirs.ends.get(timeout=30) == "closed the connection"
    assert ours.ends.empty()
    with pytest.raises(OSError, match="closed"):
        ours.link.send("flush")


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 200 OK\r\n\r\n and more of it",
        struct.pack("<8sIQ", b"mlbench\x01", 1 << 30, 0),
        struct.pack("<8sIQ", b"mlbench\x01", 2, 1 << 60),
        encode_message("samples", [np.zeros(3)], {}).replace(b"<f8", b"|O8"),
    ],
    ids=["other protocol", "long header", "long arrays", "objects"],
)
def test_what_is_no_message_ends_the_link_with_a_reason(sockets, sent):
    ours, theirs = sockets
    end = End(theirs)
    ours.sendall(sent)
    assert end.ends.get(timeout=30).startswith("sent an invalid message (")


def test_a_handler_that_raises_ends_the_link_with_a_reason(sockets, caplog):
    ours, theirs = sockets
    end = End(theirs)
    end.take = lambda message: message.facts["missing"]
    ours.sendall(encode_message("samples", [], {}))
    assert end.ends.get(timeout=30) == "sent a message that could not be handled (KeyError: 'missing')"


VANISHED = """
import fcntl, socket, struct, sys, time
sys.path.insert(0, {tests!r})
from mlbench.cluster import link
link.LOST_AFTER_S = 1
from test_link import End

IFF_UP, SIOCSIFFLAGS = 1, 0x8914

def set_loopback(flags):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags))

set_loopback(IFF_UP)
listener = socket.create_server(("127.0.0.1", 0))
ours = End(socket.create_connection(listener.getsockname()))
theirs = End(listener.accept()[0])
ours.link.send("ping")
assert theirs.receive().kind == "ping"
set_loopback(0)  # the cable is cut: nothing arrives, and nobody says so
if {speaks}:
    ours.link.send("ping")
for end in (ours, theirs):
    print(end.ends.get(timeout=30))
"""


@pytest.mark.slow
@pytest.mark.parametrize("speaks", [False, True], ids=["both are silent", "one speaks"])
def test_both_sides_notice_that_the_others_machine_is_gone(speaks):
    program = VANISHED.format(tests=str(Path(__file__).parent), speaks=speaks)
    own_network = ["unshare", "--net", "--map-root-user", sys.executable, "-c"]
    if subprocess.run([*own_network, "pass"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here")
    done = subprocess.run([*own_network, program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["is not reached any more: Connection timed out"] * 2


def test_a_connection_that_is_acknowledged_by_nobody_ends_within_half_a_minute(ends):
    """Where nothing is said, and where something is on the way; the kernel's own limits are 2 h and 15 min."""
    for end in ends:
        line = end.link._line
        idle, between, count, unacknowledged_ms = (
            line.getsockopt(socket.IPPROTO_TCP, name)
            for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        )
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert idle + between * count <= 30
        assert unacknowledged_ms <= 30_000
