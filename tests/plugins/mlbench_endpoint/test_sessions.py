"""Schedules, sessions, shared prefixes and images, as a server receives them."""

import base64
import io
import json
import time
from contextlib import contextmanager
from itertools import pairwise

import pytest
from counted_reply import CountedReply
from mlbench_endpoint.api import Api
from mlbench_endpoint.backend import Endpoint
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts
from mlbench_endpoint.loads.text_program import TextProgram
from mlbench_endpoint.mock_server.server import MockServer
from mlbench_endpoint.options import EndpointOptions
from mock_thread import mocked

from mlbench import DataError, EnginePlan, Model, Samples, UsageError

pytest.importorskip("aiohttp")


class Answers(CountedReply):
    """The answers of a test of LoadGen's, so that the engine keeps the schedule."""

    def __init__(self, count):
        super().__init__(count)
        self.counts, self.faults = [], []

    def first_token(self, samples, tokens):
        """Ignore it."""

    def complete(self, samples, outputs, token_counts=None):
        self.counts += token_counts
        super().complete(samples, outputs)

    def fail(self, samples, reason):
        self.faults.append(reason)
        super().fail(samples, reason)

    def invalidate(self, reason):
        self.faults.append(reason)


class LoggedServer(MockServer):
    """Keeps each request as it arrived."""

    def __init__(self, options):
        super().__init__(options)
        self.received = []

    def _plan(self, request, body, faults):
        self.received.append((time.monotonic(), body))
        return super()._plan(request, body, faults)


@pytest.fixture(scope="module")
def server():
    with mocked(kind=LoggedServer, ttft="20ms", tpot="1ms") as found:
        yield found


@contextmanager
def engine_of(url, **options):
    model = Model(name="prompts", graphs={}, program=TextProgram(64), weights_fingerprint="the server's")
    with Endpoint().with_options(EndpointOptions(url=url, **options)).engine(model, EnginePlan()) as engine:
        yield engine


@pytest.fixture(scope="module")
def chat(server):
    with engine_of(server[1], api=Api.CHAT) as engine:
        yield engine, server[0]


@pytest.fixture(scope="module")
def completions(server):
    with engine_of(server[1]) as engine:
        yield engine, server[0]


def send(place, prompts):
    """Send all prompts as one query; return the answers, the statistics, and the requests as the server got them."""
    engine, server = place
    server.received.clear()
    engine.statistics()
    reply = Answers(prompts.count)
    indices = list(range(prompts.count))[::-1]  # LoadGen shuffles them
    engine.submit(Samples(indices, indices, prompts), reply)
    reply.wait()
    return reply, engine.statistics(), list(server.received)


def constant(rate_per_s, seconds):
    options = PromptOptions(arrival="constant", rate_per_s=rate_per_s, seconds=seconds, tokens_in="9", tokens_out="4")
    return open_prompts(options)


def test_a_schedule_is_kept_as_the_server_sees_it(chat):
    """Ten arrivals 0.1 s apart: none may come before its time, and the lateness that is reported covers the delays."""
    prompts = constant(10.0, 1.0)
    reply, statistics, received = send(chat, prompts)
    assert reply.counts == [4] * 10
    late = statistics.extra["lateness"]
    assert late["requests"] == 10
    assert 0 <= late["least"] <= late["p50"] <= late["p99"] <= late["most"]
    # requests are known by their order: the server received them in the order of their due times
    words = [body["messages"][0]["content"].split()[4:] for _, body in received]
    assert words == [prompts.sample(index).text.split() for index in range(10)]
    arrived_s = [at_s for at_s, _ in received]
    # no request is sent before its time, so that one cannot come closer to the first than by how late the first was
    assert all(at_s - arrived_s[0] >= number / 10 - 0.5 for number, at_s in enumerate(arrived_s))
    assert arrived_s[-1] - arrived_s[0] == pytest.approx(0.9, abs=0.5)


def test_a_schedule_that_cannot_be_kept_makes_the_run_invalid_with_the_numbers(server):
    """One connection, answers of 23 ms, and 60 requests in a tenth of a second: the last one is a second late."""
    with engine_of(server[1], connections=1) as engine:
        reply, statistics, _ = send((engine, server[0]), constant(600.0, 0.1))
    late = statistics.extra["lateness"]
    assert late["most"] >= 59 * 23e6 - 0.1e9
    (fault,) = reply.faults
    assert "the schedule was not kept" in fault
    assert f"{late['most'] / 1e6:.3g} ms at most" in fault


def test_a_query_that_is_not_the_whole_schedule_is_invalid(chat):
    reply = Answers(2)
    chat[0].submit(Samples([0, 1], [3, 3], constant(100.0, 0.1)), reply)
    reply.wait()
    assert "the query has 2 samples, not each of the schedule's 10 once" in reply.faults[0]


def test_a_session_grows_by_the_servers_answers_and_waits_for_the_user(chat):
    options = PromptOptions(turns=3, think_ms=100, tokens_in="12", tokens_out="5", template_tokens=3, count=4)
    reply, statistics, received = send(chat, open_prompts(options))
    assert reply.counts == [15] * 4  # five tokens in each of three turns
    assert (statistics.extra["answered"], statistics.extra["sessions"]) == (12, 4)
    rows = {(row["of"], row["unit"]): row for row in statistics.extra["from_sending"]}
    assert rows["answer", "tokens"]["requests"] == 12
    # by the server's tokens: nine words a message, five an answer, two around each message, and one at the end
    assert {rows["prompt", "tokens"][name] for name in ("least", "p50", "most")} == {12, 30, 48}
    assert rows["first token", "ns"]["most"] < 100e6 + 20e6 + 500e6  # thinking is no part of a turn
    sessions = {}
    for at_s, body in received:
        sessions.setdefault(body["messages"][0]["content"], []).append((at_s, body["messages"]))
    assert len(sessions) == 4
    for turns in sessions.values():
        assert [len(messages) for _, messages in turns] == [1, 3, 5]
        assert turns[1][1] == turns[2][1][:3]
        assert [message["role"] for message in turns[2][1]] == ["user", "assistant"] * 2 + ["user"]
        assert len(turns[2][1][1]["content"].split()) == 5
        for (early_s, _), (late_s, _) in pairwise(turns):
            assert late_s - early_s >= 0.1


@pytest.mark.thorough("servers")
def test_so_many_sessions_are_open_at_once_as_there_are_connections(server):
    """With two places, the third session begins after one of the first two has ended."""
    options = PromptOptions(turns=3, think_ms=50, tokens_in="12", tokens_out="4", count=4)
    with engine_of(server[1], api=Api.CHAT, connections=2) as engine:
        _, _, received = send((engine, server[0]), open_prompts(options))
    lengths = [len(body["messages"]) for _, body in received]
    assert sorted(lengths[:2]) == [1, 1]
    assert 5 in lengths[: [number for number, length in enumerate(lengths) if length == 1][2]]


MESSAGES = (
    '{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "one"}, '
    '{"role": "assistant", "content": "uno"}, {"role": "user", "content": "two"}], "max_tokens": 4}\n'
)
SHAREGPT = json.dumps(
    [
        {"id": "a", "conversations": [{"from": "gpt", "value": "only an answer"}]},
        {"id": "b", "conversations": []},
        {
            "id": "c",
            "conversations": [
                {"from": "gpt", "value": "cut off"},
                {"from": "human", "value": "one"},
                {"from": "gpt", "value": "uno"},
                {"from": "human", "value": "two"},
                {"from": "gpt", "value": "due"},
            ],
        },
    ]
)


@pytest.mark.parametrize("name", ["own.jsonl", "sharegpt.json"])
@pytest.mark.parametrize("history", ["given", "answers"])
def test_a_file_of_sessions_is_sent_with_its_answers_or_the_servers(chat, tmp_path, name, history):
    content = {"own.jsonl": MESSAGES, "sharegpt.json": SHAREGPT}[name]
    (tmp_path / name).write_text(content)
    prompts = open_prompts(PromptOptions(file=str(tmp_path / name), history=history, tokens_out="4"))
    assert prompts.count == 1
    reply, _, received = send(chat, prompts)
    assert reply.counts == [8]
    system = [{"role": "system", "content": "be brief"}] * (content == MESSAGES)
    (_, first), (_, second) = received
    answer = second["messages"][-2].pop("content")
    assert answer == "uno" if history == "given" else len(answer.split()) == 4
    told = [{"role": "user", "content": "one"}, {"role": "assistant"}, {"role": "user", "content": "two"}]
    assert [first["messages"], second["messages"]] == [system + told[:1], system + told]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.jsonl", '{"messages": []}', "line 1: user and assistant do not take turns"),
        ("a.jsonl", '{"messages": [{"role": "user", "content": 7}]}', "line 1:"),
        ("a.jsonl", '{"messages": "hello"}', "line 1: 'hello' is not a prompt"),
        ("a.jsonl", MESSAGES + '{"messages": [{"role": "tool", "content": "x"}]}', "line 2: user and assistant"),
        ("a.jsonl", '{"messages": [{"role": ["user"], "content": "x"}]}', "line 1: user and assistant"),
        ("a.jsonl", '{"messages": [3]}', "line 1: '3' is not a prompt"),
        ("a.jsonl", json.dumps({"messages": 3000 * [{"role": "user", "content": "x"}]}), "line 1:"),
        ("a.json", "{", "is not JSON"),
        ("a.json", "{}", "is not a JSON array"),
        ("a.json", "[7]", "entry 1: '7' is not a prompt"),
        ("a.json", '[{"conversations": [{"from": "human", "value": 7}]}]', "entry 1:"),
        ("a.json", "[]", "has no prompt"),
        ("a.json", "[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_session_is_one_line_with_its_place(tmp_path, name, content, reason):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        open_prompts(PromptOptions(file=str(tmp_path / name)))
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 500
    assert "\n" not in str(caught.value)


def test_sessions_and_images_need_a_chat(completions):
    for options in (PromptOptions(turns=2, count=1), PromptOptions(image="8x8", count=1)):
        with pytest.raises(UsageError, match="need the messages of a chat"):
            send(completions, open_prompts(options))


def test_a_share_of_prompts_begins_with_the_same_words_and_goes_on_with_new_ones(completions):
    """A quarter of 40 prompts: the same 30 words first, then ten of their own, of which four are new each time."""
    options = PromptOptions(shared_prefix="0.25:30", tokens_in="10", tokens_out="2", count=40)
    _, _, received = send(completions, open_prompts(options))
    words = [body["prompt"].split() for _, body in received]
    sharing = [each for each in words if len(each) == 40]
    assert (len(sharing), len(words)) == (10, 40)
    assert {len(each) for each in words} == {10, 40}
    assert len({tuple(each[:30]) for each in sharing}) == 1
    assert len({tuple(each[30:34]) for each in sharing}) == 10
    assert len({tuple(each[:4]) for each in words if len(each) == 10}) == 30


@pytest.mark.parametrize("text", ["1", "0:5", "2:5", "0.5:0", "x:5", "0.5:99999999999", "-1:5", "0.5:5:5"])
def test_what_is_no_shared_prefix_is_refused(text):
    with pytest.raises(UsageError, match=r"0\.5:1024"):
        open_prompts(PromptOptions(shared_prefix=text))


def test_blocks_of_a_trace_are_the_same_in_a_test_and_new_in_the_next_one(completions, tmp_path):
    line = '{"timestamp": 0, "input_length": 20, "output_length": 2, "hash_ids": [BLOCK]}\n'
    (tmp_path / "trace").write_text("".join(line.replace("BLOCK", block) for block in "778"))
    prompts = open_prompts(PromptOptions(trace=str(tmp_path / "trace")))
    seen = []
    for _ in range(2):
        _, _, received = send(completions, prompts)
        texts = sorted(body["prompt"] for _, body in received)
        assert len(texts) == 3
        assert len(set(texts)) == 2
        seen += set(texts)
    assert len({" ".join(text.split()[:4]) for text in seen}) == 4


def test_images_have_their_size_and_new_pixels_each_time(chat):
    image = pytest.importorskip("PIL.Image")
    options = PromptOptions(image="100x53", images_per_request=2, tokens_in="12", tokens_out="2", count=3)
    _, _, received = send(chat, open_prompts(options))
    contents = set()
    for _, body in received:
        *images, text = body["messages"][0]["content"]
        assert (len(images), text["type"], len(text["text"].split())) == (2, "text", 12)
        for part in images:
            kind, _, content = part["image_url"]["url"].partition(",")
            assert (part["type"], kind) == ("image_url", "data:image/png;base64")
            found = image.open(io.BytesIO(base64.b64decode(content, validate=True)))
            found.load()  # checks the checksums of all chunks
            assert found.size == (100, 53)
            assert len(found.convert("RGB").getcolors()) > 20
            contents.add(content)
    assert len(contents) == 6


@pytest.mark.parametrize("text", ["512", "0x5", "5000x5", "axb", "5x5x5", "-1x5"])
def test_what_is_no_image_size_is_refused(text):
    with pytest.raises(UsageError, match="512x512"):
        open_prompts(PromptOptions(image=text))


@pytest.mark.parametrize("others", [{"trace": "t"}, {"turns": 2}, {"shared_prefix": "1:2"}, {"image": "8x8"}])
def test_an_option_without_an_effect_is_refused(others):
    with pytest.raises(UsageError, match="has no effect with"):
        open_prompts(PromptOptions(file="f", **others))


@pytest.mark.thorough("servers")
def test_a_turn_that_fails_fails_its_session():
    """Turns have 10, 25 and 40 tokens, and four more for the answer: the third one is too long for the server."""
    prompts = open_prompts(PromptOptions(turns=4, tokens_in="10", tokens_out="4", template_tokens=3, count=2))
    with mocked(kind=LoggedServer, context=40) as (server, url), engine_of(url, api=Api.CHAT) as engine:
        reply, statistics, received = send((engine, server), prompts)
    assert len(reply.faults) == 2
    assert "40 tokens, but 44 were requested" in reply.faults[0]
    assert reply.counts == []
    assert (statistics.extra["answered"], statistics.extra["failed"]) == (4, 2)
    assert len(received) == 6


@pytest.mark.thorough("servers")
def test_a_servers_prefix_cache_helps_as_the_prompts_say():
    """Of 20 prompts with the same 64 tokens, all but the first find these four blocks of 16; others find none."""
    with mocked(kind=LoggedServer) as (server, url), engine_of(url, connections=1) as engine:
        for share, cached in (("", 0), ("0.5:64", 19 * 64)):
            before = server.counts.cached_tokens
            options = PromptOptions(shared_prefix=share, tokens_in="40", tokens_out="2", count=40)
            send((engine, server), open_prompts(options))
            assert server.counts.cached_tokens - before == cached
