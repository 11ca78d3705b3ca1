"""Each fault of the mock server, as bytes on the wire."""

import email.utils
import gzip
import http.client
import itertools
import json
import re
import threading
from datetime import UTC, datetime

import pytest
from invoking import invoke

pytest.importorskip("aiohttp")

from mlbench_endpoint.mock_server.answers import AnswerBook
from mlbench_endpoint.mock_server.asked import read_request
from mlbench_endpoint.mock_server.faults import FAULTS, parse_faults
from mlbench_endpoint.mock_server.messages import AnswerMessages
from mlbench_endpoint.mock_server.sending import make_script
from mock_thread import ask, events_of, mocked, sending, wait_until, words_of

STREAM = {"stream": True, "stream_options": {"include_usage": True}}
PROMPT = "one two three"
DONE = b"data: [DONE]\n\n"
MESSAGES = [{"role": "user", "content": PROMPT}]


def streamed(name, **fields):
    with mocked(faults=(name,)) as (_, url):
        return ask(url, **{"prompt": PROMPT, **STREAM, **fields})


def chatted(name, **fields):
    with mocked(faults=(name,)) as (_, url):
        return ask(url, "chat/completions", messages=MESSAGES, **fields)


def refused(name, status, **fields):
    found, headers, body = streamed(name, **fields)
    assert found == status
    return headers, body


def check_busy(status, form):
    headers, body = refused(f"{status}-{form}", status)
    assert json.loads(body)["error"]["code"] == status
    when = headers.get("Retry-After")
    if form == "seconds":
        assert when == "1"
    elif form == "bare":
        assert when is None
    else:
        wait = email.utils.parsedate_to_datetime(when) - datetime.now(UTC)
        assert -30 < wait.total_seconds() <= 2


def check_page():
    headers, body = refused("error-page", 502)
    assert headers["Content-Type"].startswith("text/html")
    assert body.startswith(b"<html>")


def check_lines(name, pattern):
    body = streamed(name)[2]
    assert re.search(pattern, body), body


def check_last(name, wanted):
    last = events_of(streamed(name)[2])[-1]
    assert last["usage"]["completion_tokens"] == 6
    assert last.get("choices", "missing") == wanted


def check_model(name, wanted):
    assert {each.get("model") for each in events_of(streamed(name)[2])} == {wanted}
    assert json.loads(streamed(name, stream=False)[2]).get("model") == wanted


def check_usage(name, **wanted):
    last = events_of(streamed(name)[2])[-1]
    assert wanted.items() <= last["usage"].items()


def check_sizes(name, sizes):
    *chunks, _ = events_of(streamed(name)[2])
    assert [len(each["choices"][0]["text"].split()) for each in chunks] == sizes


def check_finish(name, wanted):
    finishes = [choice["finish_reason"] for each in events_of(streamed(name)[2]) for choice in each["choices"]]
    assert finishes == [None] * 5 + [wanted]


def check_thought(name, field):
    for is_stream, holder in ((True, "delta"), (False, "message")):
        body = chatted(name, **(STREAM if is_stream else {}))[2]
        choice = events_of(body)[2]["choices"][0] if is_stream else json.loads(body)["choices"][0]
        assert choice[holder][field]
        assert "content" not in choice[holder]


def check_text(name, pattern):
    body = streamed(name)[2]
    assert len(re.findall(pattern, body)) >= 3, body
    return body


def check_kept(name, form, usual):
    """The same stream is there when the usual form is put back."""
    body, plain = streamed(name)[2], streamed("cut-off:1e-9")[2]
    assert form in body
    assert usual not in body
    assert words_of(body.replace(form, usual)) == words_of(plain)


def check_broken(name, is_broken):
    _, headers, body = streamed(name)
    assert len(events_of(body)) == 2
    assert DONE not in body
    assert ("broken" in headers) is is_broken
    return headers


def check_silent():
    _, headers, body = streamed("silent")
    assert (body, headers["broken"]) == (b"", "TimeoutError")


def check_zip():
    _, headers, body = streamed("gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body).endswith(DONE)


def check_chunks(name, is_met):
    """Look at the chunks of the transfer encoding themselves."""
    with mocked(faults=(name,)) as (_, url), sending(url, max_tokens=6, **STREAM) as connection:
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    _, _, rest = answer.partition(b"\r\n\r\n")
    chunks = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        count = int(size, 16)
        chunks.append(rest[:count])
        rest = rest[count + 2 :]
    assert is_met([chunk for chunk in chunks if chunk]), chunks


def check_http10():
    with mocked(faults=("http10",)) as (_, url), sending(url, **STREAM) as connection:
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert (response.version, response.read().endswith(DONE)) == (10, True)


def check_models():
    with mocked(faults=("no-models",)) as (_, url):
        assert ask(url, "models")[0] == 404
        assert ask(url, prompt=PROMPT)[0] == 200


def check_query():
    with mocked(faults=("needs-query",)) as (_, url):
        assert ask(url, prompt=PROMPT)[0] == 404
        assert ask(url, prompt=PROMPT, query="?api-version=2026-01-01")[0] == 200


def check_whole():
    _, headers, body = streamed("not-streamed")
    assert headers["Content-Type"].startswith("application/json")
    assert len(json.loads(body)["choices"][0]["text"].split()) == 6


def check_differs():
    with mocked(faults=("differs-under-load",), ttft="300ms") as (server, url):
        alone = words_of(ask(url, prompt=PROMPT, **STREAM)[2])
        first = threading.Thread(target=ask, args=(url,), kwargs={"prompt": PROMPT})
        first.start()
        wait_until(lambda: server._pacer.streams)
        beside = words_of(ask(url, prompt=PROMPT, **STREAM)[2])
        first.join()
        assert words_of(ask(url, prompt=PROMPT, **STREAM)[2]) == alone
    assert beside != alone
    assert len(beside.split()) == 6


def check_one_data_line_each():
    body = streamed("several-lines")[2]
    blocks = [block for block in body.decode().split("\n\n") if block.startswith("data: {")]
    for block in blocks:
        lines = block.split("\n")
        assert len(lines) > 1
        assert all(line.startswith("data: ") for line in lines)
        json.loads("\n".join(line.removeprefix("data: ") for line in lines))


def check_surrogates():
    texts = [each["choices"][0]["text"] for each in events_of(streamed("split-surrogates")[2])[:-1]]
    assert texts == ["\ud83d", "\ude00"] * 3


def check_unknown():
    message = events_of(streamed("unknown-fields")[2])[0]
    assert {"x_groq", "timings"} <= set(message)
    assert "matched_stop" in message["choices"][0]


def check_too_many():
    assert len(words_of(streamed("too-many-tokens")[2]).split()) > 6 * 256  # also in characters


def check_counted_in_each():
    counts = [each["usage"]["completion_tokens"] for each in events_of(streamed("usage-in-each")[2])]
    assert counts == [1, 2, 3, 4, 5, 6, 6]


def ends_amid_escape(chunks):
    return len(chunks) > 6 and any(not chunk.endswith(b"\n\n") for chunk in chunks)


CHECKS = {
    **{f"{status}-{form}": (check_busy, status, form) for status in (429, 503) for form in ("seconds", "date", "bare")},
    "500": (refused, "500", 500),
    "error-page": (check_page,),
    "error-under-200": (check_lines, "error-under-200", rb'^{"error": .*out of memory'),
    "redirect": (refused, "redirect", 307),
    "strict-fields": (refused, "strict-fields", 400),
    "no-stream-options": (refused, "no-stream-options", 400),
    "no-max-tokens": (refused, "no-max-tokens", 400),
    "model-dated": (check_model, "model-dated", "mock-2026-01-01"),
    "model-other": (check_model, "model-other", "another-model"),
    "model-empty": (check_model, "model-empty", ""),
    "model-missing": (check_model, "model-missing", None),
    "usage-missing": (check_lines, "usage-missing", rb'"choices": \[\]}\n\ndata: \[DONE\]'),
    "usage-wrong": (check_usage, "usage-wrong"),
    "usage-wrong-prompt": (check_usage, "usage-wrong-prompt"),
    "unknown-fields": (check_unknown,),
    "finish-other": (check_finish, "finish-other", "eos_token"),
    "finish-filter": (check_finish, "finish-filter", "content_filter"),
    "reasoning": (check_thought, "reasoning", "reasoning_content"),
    "reasoning-new": (check_thought, "reasoning-new", "reasoning"),
    "tool-calls": (check_thought, "tool-calls", "tool_calls"),
    "done-twice": (check_lines, "done-twice", rb"data: \[DONE\]\n\ndata: \[DONE\]\n\n$"),
    "done-missing": (check_lines, "done-missing", rb'}}}\n\n$'),
    "done-comment": (check_lines, "done-comment", rb"data: \[DONE\]\n\n: bye\n\n$"),
    "done-token": (check_lines, "done-token", rb'data: \[DONE\]\n\ndata: {.* more".*\n\n$'),
    "usage-without-choices": (check_last, "usage-without-choices", "missing"),
    "usage-null-choices": (check_last, "usage-null-choices", None),
    "usage-in-each": (check_counted_in_each,),
    "empty-first": (check_lines, "empty-first", rb'^data: {.*"model": "", "choices": \[\], "prompt_filter_results"'),
    "comments": (check_lines, "comments", rb"^: processing\n\ndata: {.*\n\n: keep-alive\n\n"),
    "other-events": (check_lines, "other-events", rb"^event: ping\ndata:\n\nretry: 3000\n\nid: 7\n\n"),
    "several-tokens": (check_sizes, "several-tokens", [4, 2]),
    "one-chunk": (check_sizes, "one-chunk", [6]),
    "error-in-stream": (check_lines, "error-in-stream", rb'data: {"error": {"message": "CUDA out of memory".*\n\n$'),
    "error-event": (check_lines, "error-event", rb'event: error\ndata: {"error": .*\n\n$'),
    "too-many-tokens": (check_too_many,),
    "second-choice": (check_lines, "second-choice", rb'"index": 1'),
    "emoji": (check_text, "emoji", "\U0001f600".encode()),
    "escapes": (check_text, "escapes", rb"\\ud83d\\ude00"),
    "split-surrogates": (check_surrogates,),
    "named-events": (check_lines, "named-events", rb"^event: message\nid: 0\ndata: {"),
    "several-lines": (check_one_data_line_each,),
    "no-blank": (check_kept, "no-blank", b"data:{", b"data: {"),
    "crlf": (check_kept, "crlf", b"\r\n\r\n", b"\n\n"),
    "cr": (check_kept, "cr", b"\r\r", b"\n\n"),
    "byte-order-mark": (check_lines, "byte-order-mark", rb"^\xef\xbb\xbfdata: "),
    "bytewise": (check_chunks, "bytewise", lambda chunks: {len(each) for each in chunks} == {1}),
    "split-escapes": (check_chunks, "split-escapes", ends_amid_escape),
    "buffered": (check_chunks, "buffered", lambda chunks: len(chunks) == 1 and chunks[0].endswith(DONE)),
    "gzip": (check_zip,),
    "plain-type": (lambda: streamed("plain-type")[1]["Content-Type"] == "text/plain" or pytest.fail(),),
    "http10": (check_http10,),
    "cut-off": (check_broken, "cut-off", False),
    "hang-up": (check_broken, "hang-up", True),
    "reset": (check_broken, "reset", True),
    "stall": (check_broken, "stall", True),
    "silent": (check_silent,),
    "no-models": (check_models,),
    "needs-query": (check_query,),
    "not-streamed": (check_whole,),
    "differs-under-load": (check_differs,),
}  # fmt: skip
KEYWORDS = {"usage-wrong": {"completion_tokens": 12}, "usage-wrong-prompt": {"prompt_tokens": 6}}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_does_as_its_name_says(name):
    check, *given = CHECKS[name]
    check(*given, **KEYWORDS.get(name, {}))


def test_all_faults_are_listed_with_what_they_do():
    done = invoke("mock-server", "--list-faults")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == list(FAULTS)


def test_a_share_of_requests_has_a_fault_after_the_calm_and_again_with_the_same_seed():
    def struck(seed):
        plan = parse_faults(["cut-off:0.25"], seed=seed, calm=10)
        return [bool(plan.draw()) for _ in range(2010)]

    found = struck(1)
    assert not any(found[:10])
    assert 420 < sum(found) < 580  # four standard deviations around 500 of 2000
    assert found == struck(1) != struck(2)


def test_faults_are_put_together():
    with mocked(faults=("crlf", "done-twice", "several-tokens", "model-dated")) as (_, url):
        body = ask(url, prompt=PROMPT, **STREAM)[2]
    assert body.endswith(b"data: [DONE]\r\n\r\ndata: [DONE]\r\n\r\n")
    assert body.count(b'"mock-2026-01-01"') == 3  # two chunks of tokens, and the counts


@pytest.mark.thorough("servers")
def test_any_two_faults_can_be_put_together():
    asked = read_request({"prompt": "a", "max_tokens": 3, **STREAM}, 0, is_chat=False)
    answer = AnswerBook("", 0).answer(asked)
    messages = AnswerMessages(asked=asked, answer=answer, model="mock", created_s=1, cached_tokens=0)
    for one, other in itertools.permutations(FAULTS.values(), 2):
        script = make_script(messages, [one, other], [0.0] * 3)
        assert script.pieces or "silent" in (one.name, other.name)
