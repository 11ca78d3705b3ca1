"""The endpoint backend against servers that send what they should not: each request ends, and says what was wrong.

The server is a real one on loopback. What it does with a request is looked up by the first token of the prompt.
"""

import json
import os
import re
import signal

import pytest
from hostile_server import (
    DONE,
    END,
    FAULTS,
    JSON,
    KEY,
    ODD,
    PATIENCE_S,
    SILENCES,
    Server,
    ask,
    ended,
    engine,
    event,
    floods,
    holds,
    raw,
    samples_of,
    sends,
)

from mlbench import UnavailableError
from mlbench.conformance.recording import RecordingReply
from mlbench.discovery import Plugins
from mlbench.planning.requests import RunRequest, resolve
from mlbench.rules.tiers import Tier
from mlbench.running.runner import run_benchmark

REST = pytest.mark.thorough("servers")
"""Kinds of nonsense that other tests send in place of something else."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "reason"),
    [
        (floods(b" " * 65536), "more than 16777216 bytes"),
        pytest.param(sends(b"[" * 100_000), "invalid JSON", marks=REST),
        pytest.param(sends(b"\xff"), "not UTF-8", marks=REST),
        pytest.param(sends(b'{"data": {"id": "hostile"}}'), "lists no models", marks=REST),
        (sends(b'{"data": [7, {"id": "a\\u001b[2J"}, {"id": "b"}]}'), r"lists 2 models \(a\\x1b\[2J, b\)"),
        pytest.param(sends(headers={"Content-Encoding": "br"}), "compressed", marks=REST),
        (sends(status=302, headers={"Location": "/v1/stray"}), r"302 \(Location: /v1/stray\)"),
        pytest.param(raw(b"220 mail.example ready\r\n\r\n"), "does not answer", marks=REST),
        pytest.param(raw(b""), "does not answer", marks=REST),
    ],
)
def test_a_list_of_models_that_is_none_is_refused_in_one_line(models, reason):
    with Server({}, models=models) as server:
        with pytest.raises(UnavailableError, match=reason) as caught, engine(server):
            pass
        assert str(caught.value).isprintable()
        assert {path for path, _ in server.strays} <= {"/metrics"}


@pytest.fixture(scope="module")
def outcome():
    """Send one request for each fault, all at once, among others that are answered."""
    behaviours = {place: behaviour for place, (behaviour, _) in enumerate(FAULTS.values())}
    with Server(behaviours) as server, engine(server) as opened:
        found = ask(opened, range(len(FAULTS) + 20))
        return found, opened.statistics(), server


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_server_fails_its_sample_and_says_what_was_wrong(outcome, fault):
    found, _, _ = outcome
    place = list(FAULTS).index(fault)
    assert isinstance(found[place], str), f"was answered with {found[place]}"
    assert re.search(FAULTS[fault][1], found[place])
    assert re.match(r"http://127\.0\.0\.1:\d+/v1: ", found[place])
    assert found[place].isprintable()


def test_requests_among_them_are_answered(outcome):
    found, counts, _ = outcome
    assert [found[place] for place in range(len(FAULTS), len(FAULTS) + 20)] == [[7, 8, END]] * 20
    assert (counts.extra["answered"], counts.extra["failed"]) == (20, len(FAULTS))


def test_nothing_is_sent_to_where_a_server_points(outcome):
    assert {path for path, _ in outcome[2].strays} <= {"/metrics"}


@pytest.fixture(scope="module")
def odd_server():
    with Server({place: behaviour for place, (behaviour, _) in enumerate(ODD.values())}) as server:
        yield server


@pytest.mark.slow
def test_oddities_that_change_neither_text_nor_counts_are_counted(odd_server):
    with engine(odd_server) as opened:
        found = {}
        for place, name in enumerate(ODD):
            answer = ask(opened, [place])[place]
            found[name] = (answer, opened.statistics().extra["oddities"])
    assert found == {name: ([7, 8, END], counts) for name, (_, counts) in ODD.items()}


@pytest.mark.thorough("servers")
def test_each_oddity_fails_its_answer_where_the_user_is_strict(odd_server):
    with engine(odd_server, strict=True) as opened:
        found = ask(opened, range(len(ODD)))
    failed = {name for place, name in enumerate(ODD) if isinstance(found[place], str)}
    assert failed == {name for name, (_, counts) in ODD.items() if counts}
    assert all("(backend.strict)" in reason for reason in found.values() if isinstance(reason, str))


@pytest.mark.slow
def test_a_server_that_brings_no_token_in_time_fails_the_sample():
    with Server(dict(enumerate(SILENCES.values()))) as server, engine(server, timeout_s=0.5) as opened:
        found = ask(opened, range(len(SILENCES)))
    reasons = {re.sub(r".*/v1: |\d+ parts", "", each) for each in found.values()}
    assert reasons == {"no token for 0.5 s (backend.timeout_s), after "}


@pytest.mark.thorough("servers")
def test_a_stream_that_goes_on_and_on_fails_at_the_end_of_its_whole_time():
    with Server(dict(enumerate(SILENCES.values()))) as server, engine(server, total_timeout_s=0.5) as opened:
        found = ask(opened, range(len(SILENCES)))
    assert all("no complete answer within 0.5 s (backend.total_timeout_s)" in each for each in found.values())


@pytest.mark.thorough("servers")
def test_requests_that_wait_for_a_connection_do_not_use_up_their_time():
    """One connection, two silent requests before the third: by then twice its time has gone by."""
    with Server({0: holds(), 1: holds()}) as server:
        with engine(server, total_timeout_s=3, timeout_s=2, connections=1) as opened:
            found = ask(opened, [0, 1, 2])
    assert found[2] == [7, 8, END]


@pytest.mark.slow
def test_an_answer_that_the_workload_cannot_read_fails_its_sample_alone():
    with Server({0: sends(event([13]), ended(usage=(1, 2)), DONE)}) as server, engine(server) as opened:
        found = ask(opened, [0, 1])
        assert "13 is too much" in found[0]
        assert found[1] == [7, 8, END]
        assert ask(opened, [2])[2] == [7, 8, END]  # the thread lives on


@pytest.mark.thorough("servers")
def test_a_token_beyond_64_bits_ends_the_warm_up_with_one_line():
    with Server({}, otherwise=sends(event([2**63]))) as server, engine(server) as opened:
        with pytest.raises(UnavailableError, match=str(2**63)):
            opened.warm_up(samples_of(range(24)))


@pytest.mark.slow
def test_a_client_process_that_is_killed_fails_what_is_unanswered_and_what_comes_later():
    with Server({0: holds(event([7]))}) as server, engine(server) as opened:
        reply, samples = RecordingReply(), samples_of([0])
        opened.submit(samples, reply)
        os.kill(opened._client.pids[0], signal.SIGKILL)
        assert reply.wait(samples, PATIENCE_S)
        assert reply.failures == {1000: ["the process that talks to servers ended"]}
        assert set(ask(opened, [1, 2]).values()) == {"the process that talks to servers ended"}


@pytest.mark.thorough("servers")
def test_of_two_client_processes_only_the_requests_of_a_killed_one_fail():
    with Server({}) as server, engine(server, client_processes=2) as opened:
        assert len(set(opened._client.pids)) == 2
        assert all(isinstance(each, list) for each in ask(opened, [1, 2, 3, 4]).values())
        os.kill(opened._client.pids[0], signal.SIGKILL)
        lost = [each == "the process that talks to servers ended" for each in ask(opened, [1, 2, 3, 4]).values()]
        assert sorted(lost) == [False, False, True, True]  # they take turns


@pytest.mark.thorough("servers")
def test_requests_under_way_are_dropped_when_the_engine_is_left():
    with Server({0: holds(event([7]))}) as server:
        with engine(server) as opened:
            reply = RecordingReply()
            opened.submit(samples_of([0]), reply)
        assert (reply.answers, reply.failures) == ({}, {})


@pytest.mark.slow
def test_an_api_key_that_a_server_repeats_is_in_no_reason(monkeypatch):
    monkeypatch.setenv("HOSTILE_KEY", KEY)
    escaped = json.dumps({"error": f"bad key {KEY}"}).replace("/", "\\/").encode()
    behaviours = {
        0: sends(b"bad key " + KEY.encode(), status=401),
        1: sends(b"data: " + escaped + b"\n\n"),
        2: sends(b" " * 290 + KEY.encode(), status=401),
        3: sends(status=302, headers={"Location": f"http://127.0.0.1/{KEY}"}),
    }
    with Server(behaviours) as server, engine(server, key_variable="HOSTILE_KEY") as opened:
        found = ask(opened, behaviours)
        assert "s3cret" not in str(found) + str(opened.statistics())
    assert all("[API key]" in each for each in found.values())


@pytest.mark.thorough("servers")
def test_a_server_that_asks_for_patience_is_asked_again_only_where_the_time_allows():
    again = {"Retry-After": "0"}
    with Server({0: sends(status=503, headers=again)}) as server, engine(server, retries=3) as opened:
        assert "503" in ask(opened, [0])[0]
        assert len(server.asked) == 4
    with Server({0: sends(status=429, headers={"Retry-After": "86400"})}) as server:
        with engine(server, retries=3) as opened:
            assert "429 (Retry-After: 86400)" in ask(opened, [0])[0]
        assert len(server.asked) == 1


@pytest.mark.slow
def test_prompts_that_the_server_cut_are_counted():
    counted = [0, 0, 1, 2]  # of one token in each prompt
    behaviours = {place: sends(event([7, 8]), ended(usage=(seen, 3)), DONE) for place, seen in enumerate(counted)}
    with Server(behaviours) as server, engine(server) as opened:
        ask(opened, behaviours)
        counts = opened.statistics()
    assert (counts.truncated_prompts, counts.extra["prompts_cut_otherwise"]) == (2, 3)


@pytest.mark.thorough("servers", but=["tokens"])
@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        (sends(event(text="7", token_ids=None)), "cut the answer off after 1 parts"),
        (sends(event(text=7)), "7 as text"),
        (sends(event(text="\ud800")), r"text that is not Unicode: \"\\ud800\""),
        (sends(event(text="7 " * 25 * 256), DONE), "a text of 12800 tokens, but an answer may have 50"),
        (sends(event(text="7 " * 26 * 256)), "more than the maximum of 50 tokens"),
        (sends(*[event(text="What is 3?")] * 40, event(finish="stop", usage=(1, 50)), DONE), "a text of .* tokens"),
        (sends(event(text="7", finish="stop", usage=(1, 51)), DONE), "counts 51 tokens in an answer that may have 50"),
        (sends(event(text="", finish="stop", usage=(1, 0)), DONE), "without a token"),
    ],
    ids=["cut off", "a number", "no Unicode", "tokens", "goes on", "more than it counts", "counts", "nothing"],
)  # fmt: skip
def test_text_is_checked_against_the_same_limits(behaviour, reason):
    with Server({}, otherwise=behaviour) as server, engine(server, prompt="text") as opened:
        assert re.search(reason, ask(opened, [300])[300])


@pytest.mark.thorough("servers")
def test_beams_that_lost_are_left_out():
    lost = {"index": 1, "token_ids": [9, 9, END], "finish_reason": "stop"}
    won = {"index": 0, "token_ids": [7, END], "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 5}
    body = json.dumps({"choices": [won, lost], "usage": usage}).encode()
    with Server({}, otherwise=sends(body, headers=JSON)) as server:
        with engine(server, extra='{"n": 2, "stream": false}') as opened:
            assert ask(opened, [0])[0] == [7, END]


@pytest.mark.thorough("servers")
def test_a_run_whose_server_cuts_prompts_is_invalid_by_name(tmp_path):
    async def shorten(request):
        read = len((await request.json())["prompt"]) - 1
        return await sends(event([7, 8]), ended(usage=(read, 3)), DONE)(request)

    with Server({}, otherwise=shorten) as server:
        few = {"load.min_query_count": "8", "load.performance_sample_count": "8", "load.min_duration_ms": "50"}
        overrides = {"backend.url": server.url, "load.target_qps": "100", **few}
        request = RunRequest(
            workload="llama2-70b",
            backend="endpoint",
            scenario="Server",
            tier=Tier.SMOKE,
            wants_accuracy=False,
            power="none",
            overrides=overrides,
            results=tmp_path,
        )
        plugins = Plugins.discover()
        record = run_benchmark(resolve(request, plugins), plugins)
    failed = {rule.rule: rule.measured for rule in record.verdict.rules if not rule.passed}
    assert failed["prompts_whole"] == record.engine.truncated_prompts >= 8
    assert not record.verdict.is_valid
