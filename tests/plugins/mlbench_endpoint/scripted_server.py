"""A server that speaks the completions protocol and answers by a script: when, what, and what goes wrong."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "scripted"
END = 2


@dataclass
class Script:
    """What the server does."""

    first_s: float = 0
    token_s: float = 0
    tokens: tuple[int, ...] = (7, 8, 9, END)
    models: tuple[str, ...] = (MODEL,)
    answers_as: str = MODEL
    status: int = 200
    cut_after: int | None = None
    """Hang up after so many tokens."""
    garbage: bool = False
    text: str = ""
    """Send this, a word at a time, and no token ids."""
    fails_first: int = 0
    """Refuse so many requests, then answer."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The bodies that came, with the headers under ``headers``."""


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """Yield the URL of a server that follows the script."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self._answer(200, {"data": [{"id": name} for name in script.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            script.asked.append({**body, "headers": dict(self.headers)})
            if script.status != 200 or len(script.asked) <= script.fails_first:
                self._answer(script.status if script.status != 200 else 503, {"error": "busy"})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            time.sleep(script.first_s)
            parts: list[Any] = script.text.split(" ") if script.text else [[token] for token in script.tokens]
            for number, part in enumerate(parts):
                if number == script.cut_after:
                    return
                time.sleep(script.token_s if number else 0)
                last = number == len(parts) - 1
                choice = {"index": 0, "finish_reason": "stop" if last else None}
                choice |= {"text": part + " " * (not last)} if script.text else {"text": "x", "token_ids": part}
                usage = {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(parts)} if last else None
                self._event({"model": script.answers_as, "choices": [choice], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")

        def _event(self, message: Mapping[str, Any]) -> None:
            text = "{nonsense" if script.garbage else json.dumps(message)
            self.wfile.write(f"data: {text}\n\n".encode())
            self.wfile.flush()

        def _answer(self, status: int, message: Mapping[str, Any]) -> None:
            content = json.dumps(message).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    ThreadingHTTPServer.request_queue_size = 128  # many connect at once
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
