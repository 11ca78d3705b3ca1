"""Strangers at a node's port: whatever they do, a client with the token is let in at once."""

import json
import socket
import ssl
import struct
import threading
import time
from contextlib import ExitStack

import pytest
from networked import config, nodes, spec_of

from mlbench.cluster import handshake
from mlbench.cluster.acceptor import _site_of
from mlbench.cluster.addresses import Address
from mlbench.cluster.dialing import ask_facts
from mlbench.cluster.handshake import Greeting

PLACES = {"places": 6, "places_of_address": 3}
FOR_EVER_S = 600.0
"""No test lasts so long: what is seen then is not that a handshake ended in time."""


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """Let a client wait less long than any stranger may."""
    monkeypatch.setattr(handshake, "HANDSHAKE_S", 10.0)


@pytest.fixture
def connect():
    """Return a function that opens a stranger's connection to an address, from another one of loopback."""
    with ExitStack() as stack:

        def connect(address, host="127.0.0.1", said=b""):
            place = Address.parse(address)
            line = socket.create_connection((place.host, place.port), 10, (host, 0))
            stack.callback(line.close)
            line.settimeout(10)
            line.sendall(said)
            return line

        yield connect


def greeting():
    body = json.dumps({name: getattr(Greeting.new(), name) for name in ("protocol", "mlbench", "nonce")}).encode()
    return struct.pack(f"<{len(handshake._MARK)}sH", handshake._MARK, len(body)) + body


def is_closed(line):
    """Wait for the other side to close a connection."""
    try:
        while line.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True


@pytest.mark.parametrize("said", [b"", b"m", greeting()], ids=["silent", "slow", "without the token"])
def test_strangers_at_the_clients_own_address_do_not_keep_it_out(environment, token_file, connect, said):
    with nodes(config(environment), **PLACES, admitted_within_s=FOR_EVER_S) as [address]:
        for _ in range(40):
            connect(address, said=said)
        [facts] = ask_facts(spec_of([address], token_file))
    assert facts.name == "node-1"


def test_strangers_at_many_addresses_take_places_of_each_other(environment, token_file, connect):
    with nodes(config(environment), **PLACES, admitted_within_s=FOR_EVER_S) as [address]:
        early = connect(address, "127.0.0.1", greeting())
        early.recv(1)  # it has its place
        strangers = [connect(address, f"127.0.0.{2 + number % 4}") for number in range(40)]
        [facts] = ask_facts(spec_of([address], token_file))
        early.setblocking(False)
        assert len(early.recv(4096)) > 0  # the node's greeting, and not the end
        with pytest.raises(BlockingIOError):
            early.recv(4096)
        assert is_closed(strangers[0])
    assert facts.name == "node-1"


def test_who_is_silent_loses_its_place_before_who_came_earlier_and_spoke(environment, connect):
    limits = {"places_of_address": 2, "silent_s": 0.0, "admitted_within_s": FOR_EVER_S}
    with nodes(config(environment), **limits) as [address]:
        speaking = connect(address, said=greeting())
        speaking.recv(1)
        silent, newest = connect(address), connect(address)
        assert is_closed(silent)
        newest.sendall(greeting())
        assert newest.recv(1)
        assert speaking.recv(1)


@pytest.mark.parametrize("has_tls", [False, True])
def test_a_handshake_is_ended_in_time_however_busily_it_goes_on(environment, connect, has_tls):
    """A byte at a time: no single wait is long."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if has_tls else None
    with nodes(config(environment), tls=tls, admitted_within_s=0.3) as [address]:
        began_s, line = time.monotonic(), connect(address)
        over = threading.Event()
        said = b"\x16\x03\x01\x40\x00" if has_tls else handshake._MARK + b"\x00\x10"

        def go_on():
            for byte in said + bytes(4096):
                try:
                    line.send(bytes([byte]))
                except OSError:
                    return
                if over.wait(0.02):
                    return

        threading.Thread(target=go_on, daemon=True).start()
        assert is_closed(line)
        over.set()
        assert time.monotonic() - began_s < 5  # of 80 s that the bytes would take


def test_all_addresses_of_a_site_share_its_places_and_ipv4_in_ipv6s_form_is_ipv4():
    assert _site_of("2001:db8::1") == _site_of("2001:db8::2%eth0") != _site_of("2001:db8:0:1::1")
    assert _site_of("::ffff:192.0.2.1") == _site_of("192.0.2.1") != _site_of("::ffff:192.0.2.2")
