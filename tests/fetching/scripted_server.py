"""An HTTP server on loopback that does what a script says: serves files by range, or fails in one of many ways."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

BLOCK_BYTES = 1 << 14


@dataclass
class Served:
    """A file, and how it is served."""

    content: bytes
    etag: str | None = ""
    """Empty: of the content; None: none is sent."""
    takes_ranges: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 200
    stops_after: list[int] = field(default_factory=list)
    """The connection ends after so many bytes of a body: of the first request, the second, ..."""
    stalls: bool = False
    announced: int | None = None
    """Another length than the body has."""
    then: Callable[[Served], None] | None = None
    """Is called after a request: what changes."""


class ScriptedServer(ThreadingHTTPServer):
    """Counts what it is asked and what it sends."""

    daemon_threads = False
    block_on_close = True

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.requests: list[tuple[str, int]] = []
        self.agents: list[dict[str, str]] = []
        self.sent_bytes = 0
        self.on_block: Callable[[int], None] = lambda sent: None
        self.counting = threading.Lock()
        self.closing = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def add(self, path: str, content: bytes, **how) -> Served:
        self.files[path] = Served(content, **how)
        return self.files[path]

    def close(self) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()
        self.thread.join()

    def handle_error(self, request, client_address) -> None:
        """Say nothing where a client went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedServer

    def do_GET(self) -> None:
        path = unquote(self.path.lstrip("/"))
        served = self.server.files.get(path)
        start = self._start()
        with self.server.counting:
            self.server.requests.append((path, start))
            self.server.agents.append(dict(self.headers))
        if served is None:
            self.send_error(404)
            return
        if served.status != 200:
            self.send_response(served.status)
            for name, value in served.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self._send(served, start if served.takes_ranges else 0)
        if served.then:
            served.then(served)

    def _start(self) -> int:
        given = self.headers.get("Range", "")
        return int(given.removeprefix("bytes=").rstrip("-")) if given else 0

    def _send(self, served: Served, start: int) -> None:
        content = served.content
        if start >= len(content) > 0:
            self.send_response(416)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if served.etag is not None:
            self.send_header("ETag", served.etag or f'"{md5(content).hexdigest()}"')
        if "Content-Type" not in served.headers:
            self.send_header("Content-Type", "application/octet-stream")
        for name, value in served.headers.items():
            self.send_header(name, value)
        length = served.announced if served.announced is not None else len(content) - start
        self.send_header("Content-Length", str(length))
        self.end_headers()
        limit = served.stops_after.pop(0) if served.stops_after else len(content)
        body = memoryview(content)[start : start + limit]
        for first in range(0, len(body), BLOCK_BYTES):
            block = body[first : first + BLOCK_BYTES]
            self.wfile.write(block)
            with self.server.counting:
                self.server.sent_bytes += len(block)
                sent = self.server.sent_bytes
            self.server.on_block(sent)
        if served.stalls:
            self.server.closing.wait()
        if limit < len(content) - start or served.announced is not None:
            self.close_connection = True

    def log_message(self, *arguments) -> None:
        """Print nothing."""
