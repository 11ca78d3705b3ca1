"""The client's reading of each answer of the mock server, in both protocols: whole, whole and odd, or failed."""

import asyncio
import json
import re
import time

import pytest

pytest.importorskip("aiohttp")

import aiohttp
from mlbench_endpoint.api import Api
from mlbench_endpoint.client.access import Access
from mlbench_endpoint.client.messages import RequestMessage
from mlbench_endpoint.client.process import AnswerLine, Client
from mlbench_endpoint.client.settings import ClientSettings
from mlbench_endpoint.mock_server.faults import FAULTS
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.text_format import text_format
from mock_thread import mocked

TOKENS = 6
MODEL = "mock"

ODD = {
    "model-dated": {"the model's name 'mock-2026-01-01'"},
    "model-other": {"the model's name 'another-model'"},
    "finish-other": {"finish_reason 'eos_token'"},
    "done-twice": {"a second [DONE]"},
    "done-missing": {"an answer without [DONE]"},
    "usage-without-choices": {"usage without choices"},
    "usage-null-choices": {"usage without choices"},
    "split-surrogates": {"a character divided between two messages"},
    "gzip": {"an answer compressed with gzip, which was not requested"},
    "plain-type": {"a stream of content type text/plain"},
    "other-events": {"an event named 'ping'", "a message without choices"},
    "not-streamed": {"one JSON answer instead of a stream"},
}
FAILED = {
    **{f"{code}-{form}": f"answered {code}.*--retries" for code in (429, 503) for form in ("seconds", "date", "bare")},
    "500": "answered 500.*out of memory",
    "error-page": "answered 502.*Bad Gateway",
    "error-under-200": "out of memory",
    "redirect": "answered 307.*elsewhere",
    "strict-fields": r"answered 400.*--extra '\{\"stream_options\": null",
    "no-stream-options": r"answered 400.*--extra '\{\"stream_options\": null",
    "no-max-tokens": "answered 400.*max_completion_tokens.*--extra",
    "usage-missing": "sent no usage.*--count tokenizer:PATH or --count chunks",
    "usage-wrong": "counts 12 tokens in an answer that may have 6",
    "finish-filter": 'ended the answer with "content_filter"',
    "done-token": r"after it had ended the answer|more after \[DONE\]",
    "error-in-stream": "CUDA out of memory",
    "error-event": "CUDA out of memory",
    "too-many-tokens": "more than the maximum of 6 tokens",
    "second-choice": "choice 1, but 1 were requested",
    "cut-off": "cut the answer off after 2 parts",
    "hang-up": "(?i)payload|disconnected",
    "reset": "(?i)reset|payload|disconnected",
    "stall": "no token for 0.3 s",
    "silent": "no token for 0.3 s",
    "needs-query": "answered 404",
}


class Lines:
    """Keeps what the client's process would send to the engine."""

    def __init__(self):
        self.sent = []

    def write(self, line):
        self.sent.append(json.loads(line))


def ask(url, api, *, extra=None, count="", **options):
    """Return the last message about a request of 6 tokens: an answer, or a failure."""
    form = text_format(api=api, extra=extra or {}, count=count)
    settings = ClientSettings(
        targets=[url],
        fields=form.common,
        format=form.answer,
        options=EndpointOptions(url=url, api=api, **{"timeout_s": 0.3, **options}),
    )
    lines = Lines()

    async def run():
        async with aiohttp.ClientSession(auto_decompress=False) as http:
            report = AnswerLine(lines, Access(headers={}, secrets=[], tls=None))
            client = Client(http=http, settings=settings, model=MODEL, free=asyncio.Semaphore(1), report=report)
            fields = {"max_tokens": TOKENS, **api.prompt_fields("one two three")}
            fields = {name: value for name, value in fields.items() if name not in form.chosen}
            await client.ask(RequestMessage(id=1, fields=fields, limit=TOKENS))

    asyncio.run(run())
    return lines.sent[-1]


def ask_faulty(name, api, **options):
    patience = {} if "no token" in FAILED.get(name, "") else {"timeout_s": 20}
    with mocked(faults=(name,)) as (_, url):
        return ask(url, api, **{**patience, **options})


@pytest.mark.parametrize("api", [Api.COMPLETIONS, Api.CHAT])
@pytest.mark.parametrize("name", FAULTS)
def test_each_answer_is_whole_or_odd_or_fails_with_the_way_out(name, api):
    found = ask_faulty(name, api)
    if name in FAILED:
        assert found["kind"] == "Failed", found
        assert re.search(FAILED[name], found["reason"])
        return
    assert found["kind"] == "Answered", found
    assert set(found["oddities"]) == ODD.get(name, set())
    assert found["answer_tokens"] == TOKENS
    assert found["answer"].strip()


@pytest.mark.parametrize("name", ODD)
def test_a_strict_client_fails_each_odd_answer(name):
    found = ask_faulty(name, Api.CHAT, strict=True)
    assert found["kind"] == "Failed"
    assert found["reason"].endswith("(backend.strict)")


@pytest.mark.parametrize("count", ["chunks", ""])
def test_a_server_without_counts_is_measured_by_chunks(count):
    extra = {} if count else {"stream_options": None}
    name = "usage-missing" if count else "no-stream-options"
    found = ask_faulty(name, Api.COMPLETIONS, count=count, extra=extra)
    assert found["answer_tokens"] is None
    assert len(found["chunk_ns"]) == TOKENS


def test_the_limit_of_an_answer_may_have_another_name():
    extra = {"max_tokens": None, "max_completion_tokens": TOKENS}
    assert ask_faulty("no-max-tokens", Api.CHAT, extra=extra)["answer_tokens"] == TOKENS


@pytest.mark.parametrize(("form", "least_s"), [("seconds", 1), ("bare", 0.125)])
def test_a_refused_request_is_sent_again_after_the_wait_that_the_server_asks_for(form, least_s):
    began_s = time.monotonic()
    with mocked(faults=(f"429-{form}",)) as (_, url):
        found = ask(url, Api.COMPLETIONS, retries=1, timeout_s=20)
    assert (found["kind"], found["attempts"]) == ("Failed", 2)
    assert time.monotonic() - began_s >= least_s


def test_a_query_goes_behind_the_path_of_each_request():
    with mocked(faults=("needs-query",)) as (_, url):
        found = ask(f"{url}?api-version=2026-01-01", Api.CHAT, timeout_s=20)
    assert found["kind"] == "Answered"
