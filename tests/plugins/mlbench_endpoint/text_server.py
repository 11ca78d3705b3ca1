"""A server process on loopback that speaks both protocols, streams one word a token, and may refuse.

    python text_server.py '{"token_s": 0.002}'

prints its URL on the first line; ``port`` says where that is. Its tokenizer makes one token of each word, and of a
chat's template three.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

TEMPLATE_TOKENS = 3


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    script: ClassVar = {}
    slots = threading.Semaphore(1 << 20)

    def log_message(self, format, *args):
        """Say nothing."""

    def do_GET(self):
        self.answer(200, {"data": [{"id": "wordy"}]}) if self.is_let_in() else None

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.is_let_in():
            return
        if body["model"] != "wordy":
            self.answer(404, {"error": f"the model {body['model']} does not exist"})
            return
        is_chat = self.path.endswith("/chat/completions")
        prompt = body["messages"][0]["content"] if is_chat else body["prompt"]
        read = len(prompt.split()) + TEMPLATE_TOKENS * is_chat
        if read > self.script.get("context", 1 << 20):
            self.answer(400, {"error": f"a prompt of {read} tokens is too long"})
            return
        with self.slots:
            self.generate(body, read, is_chat=is_chat)

    def generate(self, body, read, *, is_chat):
        count = min(body["max_tokens"], self.script.get("stops_after", 1 << 20))
        reason = "length" if count == body["max_tokens"] else "stop"
        usage = {"prompt_tokens": read, "completion_tokens": count}
        time.sleep(self.script.get("first_s", 0))
        if not body.get("stream"):
            text = "word " * count
            choice = {"message": {"content": text}} if is_chat else {"text": text}
            self.answer(200, {"choices": [{"index": 0, "finish_reason": reason, **choice}], "usage": usage})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for number in range(count):
            time.sleep(self.script.get("token_s", 0) if number else 0)
            choice = {"delta": {"content": "word "}} if is_chat else {"text": "word "}
            is_last = number == count - 1
            self.event({"choices": [{"index": 0, "finish_reason": reason if is_last else None, **choice}]})
        self.event({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def is_let_in(self):
        is_right = not (key := self.script.get("key")) or self.headers.get("Authorization") == f"Bearer {key}"
        if not is_right:
            self.answer(401, {"error": "no such key"})
        return is_right

    def event(self, message):
        self.wfile.write(f"data: {json.dumps(message)}\n\n".encode())
        self.wfile.flush()

    def answer(self, status, message):
        content = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


if __name__ == "__main__":
    ThreadingHTTPServer.request_queue_size = 1024
    Handler.script = json.loads(sys.argv[1])
    Handler.slots = threading.Semaphore(Handler.script.get("slots", 1 << 20))
    server = ThreadingHTTPServer(("127.0.0.1", Handler.script.get("port", 0)), Handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()
