"""How a client reaches nodes, and what it says of addresses that are none."""

import http.server
import re
import socket
import threading

import networked
import pytest
from networked import config, nodes, spec_of

from mlbench import UsageError
from mlbench.cluster.addresses import Address
from mlbench.cluster.demand import NetworkDemand
from mlbench.cluster.dialing import Dialer, ask_facts
from mlbench.cluster.handshake import greet_client


def ask(addresses, token_file):
    return ask_facts(spec_of(addresses, token_file))


def test_a_node_says_what_it_is(environment, token_file):
    with nodes(config(environment, "north")) as addresses:
        [found] = ask(addresses, token_file)
    assert found == networked.facts(environment, "north")


def test_strangers_do_not_hinder_a_client(environment, token_file):
    with nodes(config(environment, "north")) as [address]:
        host, port = address.split(":")
        strangers = [socket.create_connection((host, int(port))) for _ in range(5)]
        for stranger, said in zip(
            strangers, (b"GET / HTTP/1.1\r\n\r\n", b"", b"m", b"\x00" * 5000, b"mlbench\x02"), strict=True
        ):
            stranger.sendall(said)
        assert ask([address], token_file)[0].name == "north"
        for stranger in strangers:
            stranger.close()


def test_a_client_that_is_let_down_by_an_ending_process_tries_again(token_file):
    def serve():
        for _ in range(2):
            listener.accept()[0].close()
        line, _ = listener.accept()
        with line:
            greet_client(line, networked.TOKEN)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        address = Address(*listener.getsockname())
        Dialer.of_spec(spec_of([], token_file)).dial(address).close()
        thread.join()


def test_an_address_that_does_not_answer_is_said_in_a_line(token_file):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(UsageError) as caught:
        ask([address], token_file)
    assert str(caught.value) == f"{address} does not answer: Connection refused. Start it there with `mlbench serve`."


def test_another_server_is_told_from_a_node(token_file):
    class Quiet(http.server.BaseHTTPRequestHandler):
        def log_message(self, *words):
            """Print nothing."""

    with http.server.HTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        with pytest.raises(UsageError, match="does not speak mlbench's protocol: it "):
            ask([address], token_file)
        server.shutdown()


def test_a_wrong_secret_names_the_node_and_what_to_give(environment, token_file):
    with nodes(config(environment)) as [address]:
        token_file.write_text("another secret of the tests")
        with pytest.raises(UsageError) as caught:
            ask([address], token_file)
    assert str(caught.value) == f"node {address}: wrong token. Use the node's token file with --token-file."


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"versions": {"torch": "2.8"}}, "torch differs between nodes: 2.9 on"),
        ({"versions": {}}, "torch differs between nodes: 2.9 on"),
        ({"backend": "other"}, "backend differs between nodes: doubling on"),
        ({"settings": {"backend.threads": 2}}, "settings differs between nodes: {} on"),
        ({"precisions": ["bf16", "fp32"]}, "precisions differs between nodes: fp32 on"),
        ({"name": "node-1"}, "are both named node-1. Name each address once"),
    ],
)
def test_nodes_that_differ_are_refused_with_the_fact(environment, token_file, change, said):
    other = {"name": "node-2"} | change
    with nodes(config(environment), config(environment, **other)) as addresses:
        with pytest.raises(UsageError, match=re.escape(said)):
            NetworkDemand.of_spec(spec_of(addresses, token_file))
