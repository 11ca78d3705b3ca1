"""A mock server in a thread of the tests, and a client that keeps a response as bytes."""

import asyncio
import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

from mlbench_endpoint.mock_server.options import MockOptions
from mlbench_endpoint.mock_server.server import MockServer

PATIENCE_S = 30


@contextmanager
def mocked(kind=MockServer, **options):
    """Yield a mock server of a class and its URL; without delays, unless they are given."""
    loop, over = asyncio.new_event_loop(), asyncio.Event()
    found, began = {}, threading.Event()

    async def run():
        server = kind(MockOptions(**{"ttft": "0", "tpot": "0", **options}))
        async with server.serve() as url:
            found.update(server=server, url=url)
            began.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    try:
        assert began.wait(PATIENCE_S)
        yield found["server"], found["url"]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


def ask(url, path="completions", headers=None, query="", **fields):
    """Return status, headers and body of a request; a body that breaks off as far as it came."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=2)
    body = json.dumps({"max_tokens": 6, **fields}) if fields else None
    try:
        connection.request("POST" if fields else "GET", f"{parts.path}/{path}{query}", body, headers or {})
        response = connection.getresponse()
        read = bytearray()
        try:
            while piece := response.read1(1 << 16):
                read += piece
        except (http.client.HTTPException, OSError) as error:
            return response.status, {**response.headers, "broken": type(error).__name__}, bytes(read)
        return response.status, dict(response.headers), bytes(read)
    finally:
        connection.close()


@contextmanager
def sending(url, path="completions", **fields):
    """Yield a connection on which a request was sent, and nothing read."""
    parts = urlsplit(url)
    body = json.dumps({"prompt": "one two three", "stream": True, **fields}).encode()
    head = f"POST {parts.path}/{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S) as connection:
        connection.sendall(head.encode() + body)
        yield connection


def wait_until(is_met):
    """Wait for a condition."""
    end_s = time.monotonic() + PATIENCE_S
    while not is_met():
        assert time.monotonic() < end_s
        time.sleep(0.001)


def events_of(body):
    """Return the JSON messages of a stream in the usual form."""
    lines = body.decode().split("\n\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def words_of(body):
    """Return the text of the completion that a stream holds."""
    return "".join(choice["text"] for message in events_of(body) for choice in message.get("choices") or ())
