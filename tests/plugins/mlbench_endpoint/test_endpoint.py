"""The endpoint backend against real servers on loopback that answer by a script."""

import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from counted_reply import CountedReply
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.options import EndpointOptions

from mlbench import (
    Decoding,
    EnginePlan,
    GenerationProgram,
    Model,
    Prompt,
    ReplySpec,
    Samples,
    UnavailableError,
    UsageError,
)

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.slow  # each starts the process that talks to servers

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
    refusal: str = "busy"
    cut_after: int | None = None
    """Hang up after so many tokens."""
    garbage: bool = False
    text: str = ""
    """Send this, a word at a time, and no token ids."""
    fails_first: int = 0
    """Refuse so many requests, then answer."""
    gathers: threading.Barrier | None = None
    """Answer when as many requests have come."""
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
                self._answer(script.status if script.status != 200 else 503, {"error": script.refusal})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            if script.gathers:
                script.gathers.wait()
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


PROMPTS = {0: [5, 6, 7], 1: [8, 9], 2: [10]}


class Data:
    def sample(self, index):
        return Prompt(tokens=np.array(PROMPTS[index]))


class Talk(GenerationProgram):
    reply = ReplySpec(dtype="int64", shape=(None,))

    def __init__(self, **decoding):
        self.decoding = Decoding(**{"end_tokens": (END,), "max_new_tokens": 50, "longest": 100, **decoding})

    def prompt(self, sample):
        return sample

    def answer(self, tokens):
        return np.array(tokens, np.int64)


class Heard(CountedReply):
    """Keeps tokens, and when they came."""

    def __init__(self, count):
        super().__init__(count)
        self.firsts, self.at = {}, {}

    def first_token(self, samples, tokens):
        self.firsts[samples.ids[0]] = tokens.tolist()
        self.at["first", samples.ids[0]] = time.monotonic()

    def complete(self, samples, outputs, token_counts=None):
        assert [len(output) for output in outputs] == list(token_counts)
        self.at["end", samples.ids[0]] = time.monotonic()
        super().complete(samples, [output.tolist() for output in outputs])


def model(program=None, **fields):
    return Model(name="talk", graphs={}, program=program or Talk(), weights_fingerprint="", **fields)


@contextmanager
def engine(script, program=None, **options):
    with serving(script) as url:
        backend = Endpoint().with_options(EndpointOptions(**{"url": url, **options}))
        with backend.engine(model(program), EnginePlan()) as opened:
            yield opened


def ask(opened, *indices):
    heard = Heard(len(indices))
    opened.submit(Samples([100 + index for index in indices], list(indices), Data()), heard)
    return heard.wait()


def test_prompts_go_out_as_tokens_and_answers_come_back_as_tokens():
    script = Script()
    with engine(script) as opened:
        heard = ask(opened, 0, 1)
    assert heard.answers == {100: [7, 8, 9, END], 101: [7, 8, 9, END]}
    assert heard.firsts == {100: [[7]], 101: [[7]]}
    assert sorted(body["prompt"] for body in script.asked) == [[5, 6, 7], [8, 9]]
    (body, _) = sorted(script.asked, key=lambda body: body["prompt"])
    assert {name: body[name] for name in ("model", "temperature", "max_tokens", "stream", "return_token_ids")} == {
        "model": MODEL,
        "temperature": 0,
        "max_tokens": 50,
        "stream": True,
        "return_token_ids": True,
    }


@pytest.mark.thorough("servers")
def test_an_answer_has_room_for_what_the_prompt_leaves_of_the_positions():
    script = Script()
    with engine(script, Talk(longest=12)) as opened:
        ask(opened, 0)
    assert script.asked[0]["max_tokens"] == 9


@pytest.mark.thorough("servers")
def test_an_end_token_that_the_server_keeps_to_itself_is_added():
    with engine(Script(tokens=(7, 8))) as opened:
        assert ask(opened, 0).answers == {100: [7, 8, END]}


def test_the_first_token_is_heard_before_the_last_is_sent():
    with engine(Script(first_s=0.05, token_s=0.05)) as opened:
        started = time.monotonic()
        heard = ask(opened, 0)
    assert heard.at["first", 100] - started >= 0.05
    assert heard.at["end", 100] - heard.at["first", 100] >= 0.1


@pytest.mark.thorough("servers", but=["refusal"])
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (Script(status=503), r"answered 503: .*busy"),
        (Script(cut_after=2), "cut the answer off after 2 parts"),
        (Script(cut_after=0), "cut the answer off after 0 parts"),
        (Script(garbage=True), r"invalid JSON: \{nonsense"),
        (Script(text="no ids here"), "sent text, not token ids"),
        (Script(tokens=("a", "b")), 'sent "a" as a token id'),
    ],
    ids=["refusal", "cut off", "nothing", "garbage", "text", "words for ids"],
)
def test_what_goes_wrong_with_one_request_fails_that_sample(script, reason):
    with engine(script) as opened:
        heard = ask(opened, 0)
        counts = opened.statistics()
    assert not heard.answers
    assert counts.extra["failed"] == 1
    assert re.search(reason, heard.failures[100])


def test_a_request_is_not_repeated_unless_the_user_wants_it():
    with engine(Script(fails_first=1)) as opened:
        assert "503" in ask(opened, 0).failures[100]
    with engine(Script(fails_first=1), retries=1) as opened:
        assert ask(opened, 0).answers
        assert opened.statistics().extra["retried"] == 1


def test_what_has_begun_is_never_repeated():
    script = Script(cut_after=2)
    with engine(script, retries=5) as opened:
        ask(opened, 0)
    assert len(script.asked) == 1


def test_targets_take_turns():
    one, other = Script(), Script()
    with serving(one) as first, serving(other) as second, engine(Script(), url=f"{first}, {second}/") as opened:
        ask(opened, 0, 1)
    assert (len(one.asked), len(other.asked)) == (1, 1)


def test_the_key_comes_from_the_environment(monkeypatch):
    script = Script()
    monkeypatch.setenv("TALK_KEY", "s3cret")
    with engine(script, key_variable="TALK_KEY") as opened:
        ask(opened, 0)
        assert "s3cret" not in str(opened.statistics())
    assert script.asked[0]["headers"]["Authorization"] == "Bearer s3cret"


def test_headers_come_from_the_environment_and_stay_out_of_errors(monkeypatch):
    script = Script()
    monkeypatch.setenv("TALK_HEADER", "s3cret-route")
    monkeypatch.setenv("TALK_KEY", "other-s3cret")
    options = {"header_variables": "X-Route = TALK_HEADER, Authorization=TALK_KEY", "key_variable": "TALK_KEY"}
    with engine(script, **options) as opened:
        ask(opened, 0)
        assert "s3cret" not in str(opened.statistics())
    assert script.asked[0]["headers"]["X-Route"] == "s3cret-route"
    assert script.asked[0]["headers"]["Authorization"] == "other-s3cret"
    refusal = Script(status=500, refusal="no route s3cret-route")
    with engine(refusal, **options) as opened:
        assert "no route [API key]" in ask(opened, 0).failures[100]


@pytest.mark.thorough("servers")
def test_many_requests_are_under_way_at_once():
    """The server answers none before all have come."""
    with engine(Script(gathers=threading.Barrier(60, timeout=60))) as opened:
        heard = Heard(60)
        opened.submit(Samples(range(60), [0] * 60, Data()), heard)
        heard.wait()
    assert len(heard.answers) == 60


def test_warming_up_shows_that_prompts_are_refused():
    with engine(Script(status=400)) as opened, pytest.raises(UnavailableError, match="answered 400"):
        opened.warm_up(Samples([1], [0], Data()))


@pytest.mark.parametrize(
    ("script", "options", "reason"),
    [
        (Script(models=("a", "b")), {}, r"lists 2 models \(a, b\): set backend.model"),
        (Script(models=("a",), status=503), {"model": "b"}, "lists no model 'b', but a; asked for 'b': .*503"),
        (Script(models=()), {}, "lists no models: set backend.model"),
        (Script(), {"url": "http://127.0.0.1:9/v1"}, "http://127.0.0.1:9/v1 does not answer"),
    ],
)
def test_a_server_that_cannot_serve_is_reported_at_once(script, options, reason):
    with pytest.raises(UnavailableError, match=reason), engine(script, **options):
        pass


@pytest.mark.thorough("servers")
def test_a_model_that_a_server_has_without_listing_it_is_asked_for():
    script = Script(models=("downloaded",), answers_as=f"{MODEL}@main")
    with engine(script, model=MODEL) as opened:
        assert ask(opened, 0).answers
    assert [body["model"] for body in script.asked] == [MODEL, MODEL]
    assert script.asked[0]["max_tokens"] == 1


def test_statistics_count_from_one_asking_to_the_next():
    with engine(Script()) as opened:
        ask(opened, 0, 1)
        assert opened.statistics().extra["answered"] == 2
        assert opened.statistics().extra["answered"] == 0


@pytest.mark.thorough("servers")
def test_answers_that_the_server_counts_otherwise_are_counted():
    with engine(Script(tokens=(7, 8, END))) as opened:
        ask(opened, 0)
        assert opened.statistics().extra["answers_cut_otherwise"] == 0
    with engine(Script(tokens=(7, 8))) as opened:  # mlbench adds the end, which this server does not count
        ask(opened, 0)
        assert opened.statistics().extra["answers_cut_otherwise"] == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "backend.url is ''"),
        ({"url": "localhost:8000"}, "backend.url is 'localhost:8000'"),
        ({"url": "http://x", "key_variable": "NO_SUCH_KEY"}, "backend.key_variable is 'NO_SUCH_KEY', but the env"),
        ({"url": "http://x", "extra": "[1]"}, r"backend.extra is '\[1\]'"),
        ({"url": "http://x", "extra": "[" * 100_000}, r"backend.extra is '\[\["),
        ({"url": "http://me:s3cret@x/v1"}, "backend.url contains a user, a fragment or a query with a key"),
        ({"url": "http://x/v1?key=s3cret"}, "backend.url contains a user, a fragment or a query with a key"),
        ({"url": "http://x/v1?a=b&sig=s3cret"}, "backend.url contains a user, a fragment or a query with a key"),
        ({"url": "http://127.0.0.1:99999/v1"}, "http://127.0.0.1:99999/v1 is not a URL"),
        ({"url": "http://[/v1"}, r"http://\[/v1 is not a URL"),
        ({"url": "http:///v1"}, "http:///v1 is not a URL"),
        ({"url": "http://x/v1/chat/completions"}, "ends with the path of a request"),
        ({"url": "http://x", "header_variables": "a"}, "backend.header_variables is not NAME=VARIABLE"),
        ({"url": "http://x", "header_variables": "a b=s3cret"}, "backend.header_variables is not NAME=VARIABLE"),
        ({"url": "http://x", "header_variables": "Content-Length=X"}, "the header Content-Length is set by mlbench"),
        ({"url": "http://x", "header_variables": "a=NO_SUCH"}, "backend.header_variables is 'NO_SUCH', but the env"),
        ({"url": "http://x", "ca": "/nowhere.pem"}, "backend.ca is '/nowhere.pem', which cannot be read"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, reason):
    with pytest.raises(UsageError, match=reason) as caught:
        Endpoint().with_options(EndpointOptions(**options)).engine(model(), EnginePlan())
    assert "s3cret" not in f"{caught.value}{caught.value.hint}"


@pytest.mark.parametrize("key", ["s3\ncret", "s3cr\u00e9t", "s3\x1bcret"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(monkeypatch, key):
    monkeypatch.setenv("TALK_KEY", key)
    backend = Endpoint().with_options(EndpointOptions(url="http://x", key_variable="TALK_KEY"))
    with pytest.raises(UsageError, match="the API key in TALK_KEY has a character") as caught:
        backend.engine(model(), EnginePlan())
    assert "cr" not in str(caught.value).replace("character", "")


def test_a_prompt_that_leaves_no_room_for_an_answer_fails_before_it_is_sent():
    script = Script(tokens=(END,))
    with engine(script, Talk(longest=3)) as opened:
        heard = ask(opened, 0, 1)
    assert heard.failures == {100: "the prompt of 3 tokens leaves no tokens for an answer"}
    assert [(len(body["prompt"]), body["max_tokens"]) for body in script.asked] == [(2, 1)]


def test_beams_need_the_fields_of_the_server_at_hand():
    backend = Endpoint().with_options(EndpointOptions(url="http://x"))
    with pytest.raises(UsageError, match="4 beams") as caught:
        backend.engine(model(Talk(beams=4)), EnginePlan())
    assert "use_beam_search" in caught.value.hint


def test_text_needs_a_tokenizer():
    backend = Endpoint().with_options(EndpointOptions(url="http://x", prompt="text"))
    with pytest.raises(UsageError, match="no tokenizer"):
        backend.engine(model(), EnginePlan())
