"""The mock server: the protocol, its delays, its queue, its prefix cache, and its own measure of itself."""

import asyncio
import json
import math
import re
import signal
import socket
import statistics
import subprocess
import threading
import time
from pathlib import Path
from random import Random

import pytest
from invoking import invoke

from mlbench import UsageError

pytest.importorskip("aiohttp")

from mlbench_endpoint import mock_server
from mlbench_endpoint.mock_server.delays import parse_delay
from mlbench_endpoint.mock_server.lateness import Lateness
from mlbench_endpoint.mock_server.pacer import PacedStream, Pacer
from mlbench_endpoint.mock_server.prompt_cache import PrefixCache
from mock_process import COMMAND
from mock_thread import ask, events_of, mocked, sending, wait_until, words_of

STREAM = {"stream": True, "stream_options": {"include_usage": True}}
PROMPT = "one two three"


@pytest.fixture(scope="module")
def url():
    with mocked() as (_, url):
        yield url


@pytest.mark.parametrize(
    ("text", "mean_s", "p99_s"),
    [
        ("20ms", 0.02, 0.02),
        ("0", 0, 0),
        ("1.5s", 1.5, 1.5),
        ("250us", 250e-6, 250e-6),
        ("uniform:10ms:30ms", 0.02, 0.0298),
        ("normal:20ms:2ms", 0.02, 0.02 + 2.3263 * 0.002),
        ("lognormal:20ms:80ms", 0.02 * math.exp((math.log(4) / 2.3263) ** 2 / 2), 0.08),
        ("exponential:20ms", 0.02, 0.02 * math.log(100)),
    ],
)
def test_delays_have_the_mean_and_the_percentile_of_their_distribution(text, mean_s, p99_s):
    delay, rng = parse_delay(text, "--ttft"), Random(1)
    drawn = sorted(delay(rng) for _ in range(20_000))
    assert statistics.fmean(drawn) == pytest.approx(mean_s, rel=0.03)
    assert drawn[19_799] == pytest.approx(p99_s, rel=0.06)


@pytest.mark.parametrize(
    "text", ["20", "-1ms", "nan", "1e3s", "2h", "uniform:3ms:1ms", "normal:1ms", "lognormal:0:1ms", "4000s", "", "１ms"]
)
def test_a_delay_that_is_none_is_one_line(text):
    with pytest.raises(UsageError, match="--tpot is") as caught:
        parse_delay(text, "--tpot")
    assert "uniform:10ms:30ms" in caught.value.hint


def test_negative_draws_count_as_no_delay():
    delay, rng = parse_delay("normal:1ms:10ms", "--ttft"), Random(0)
    assert min(delay(rng) for _ in range(100)) == 0


def test_models_are_listed(url):
    status, _, body = ask(url, "models")
    assert status == 200
    assert [each["id"] for each in json.loads(body)["data"]] == ["mock"]


def test_a_stream_has_the_words_of_a_whole_answer_and_counts_them(url):
    _, _, whole = ask(url, prompt=PROMPT)
    _, headers, streamed = ask(url, prompt=PROMPT, **STREAM)
    assert headers["Content-Type"].startswith("text/event-stream")
    assert streamed.endswith(b"data: [DONE]\n\n")
    assert words_of(streamed) == json.loads(whole)["choices"][0]["text"]
    assert len(words_of(streamed).split()) == 6
    *tokens, last = events_of(streamed)
    assert len(tokens) == 6
    assert [each["choices"][0]["finish_reason"] for each in tokens] == [None] * 5 + ["length"]
    assert last["choices"] == []
    wanted = {"prompt_tokens": 3, "completion_tokens": 6, "total_tokens": 9}
    assert wanted.items() <= last["usage"].items()
    assert wanted.items() <= json.loads(whole)["usage"].items()


def test_a_chat_begins_with_a_role_and_counts_its_template(url):
    _, _, body = ask(url, "chat/completions", messages=[{"role": "user", "content": PROMPT}], **STREAM)
    role, *tokens, last = events_of(body)
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert all(each["choices"][0]["delta"]["content"] for each in tokens)
    assert last["usage"]["prompt_tokens"] == 3 + 3  # two marks around a message, one before the answer


def test_token_ids_are_sent_on_request(url):
    _, _, body = ask(url, prompt=[5, 6, 7], return_token_ids=True, **STREAM)
    *tokens, last = events_of(body)
    assert all(len(each["choices"][0]["token_ids"]) == 1 for each in tokens)
    assert last["usage"]["prompt_tokens"] == 3


def test_without_the_option_no_counts_are_streamed(url):
    _, _, body = ask(url, prompt=PROMPT, stream=True)
    assert all("usage" not in each for each in events_of(body))


def test_images_in_a_chat_count_as_tokens(url):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": PROMPT}, image]
    _, _, body = ask(url, "chat/completions", messages=[{"role": "user", "content": content}])
    assert json.loads(body)["usage"]["prompt_tokens"] == 3 + 3 + 256


@pytest.mark.parametrize(
    ("fields", "status", "reason"),
    [
        ({"model": "other", "prompt": "a"}, 404, "does not exist"),
        ({"prompt": 7}, 400, "prompt must be"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens is 0"),
        ({"prompt": "a", "max_tokens": True}, 400, "max_tokens is True"),
        ({"prompt": "a " * 100_000, "max_tokens": 1_000_000}, 400, "maximum context length"),
        ({"prompt": "a", "stream_options": 1}, 400, "stream_options is 1"),
    ],
)
def test_a_bad_request_is_refused_in_the_protocols_form(url, fields, status, reason):
    found, _, body = ask(url, **fields)
    assert found == status
    assert reason in json.loads(body)["error"]["message"]


def test_answers_have_the_drawn_length_unless_the_end_is_ignored():
    with mocked(answer_tokens="4") as (_, url):
        _, _, ended = ask(url, prompt=PROMPT, **STREAM)
        _, _, full = ask(url, prompt=PROMPT, ignore_eos=True, **STREAM)
    assert events_of(ended)[-1]["usage"]["completion_tokens"] == 4
    assert events_of(ended)[-2]["choices"][0]["finish_reason"] == "stop"
    assert events_of(full)[-1]["usage"]["completion_tokens"] == 6


def test_the_same_seed_gives_the_same_answers_and_another_seed_others():
    def answer(seed):
        with mocked(seed=seed) as (_, url):
            return words_of(ask(url, prompt=PROMPT, **STREAM)[2])

    assert answer(1) == answer(1) != answer(2)


def test_tokens_never_come_before_their_time():
    with mocked(ttft="30ms", tpot="10ms", jitter="uniform:0:5ms") as (server, url):
        began_s = time.monotonic()
        ask(url, prompt=PROMPT, **STREAM)
        ask(url, prompt=PROMPT)
        assert time.monotonic() - began_s >= 2 * (0.03 + 5 * 0.01)
        assert server.report().lateness.pieces == 6 + 1
    with mocked(prefill="10ms") as (_, url):
        began_s = time.monotonic()
        ask(url, prompt=PROMPT, max_tokens=1)
        assert time.monotonic() - began_s >= 3 * 0.01


def test_requests_beyond_the_slots_wait_and_those_beyond_the_queue_are_refused():
    with mocked(ttft="500ms", slots=1, queue=1) as (server, url):
        threads = [threading.Thread(target=ask, args=(url,), kwargs={"prompt": PROMPT}) for _ in range(2)]
        began_s = time.monotonic()
        for thread in threads:
            thread.start()
        wait_until(lambda: (server.counts.running, server.counts.waiting) == (1, 1))
        metrics = ask(url.removesuffix("/v1"), "metrics")[2].decode()
        status, _, _ = ask(url, prompt=PROMPT)
        for thread in threads:
            thread.join()
        assert time.monotonic() - began_s >= 2 * 0.5
    assert 'num_requests_running{model_name="mock"} 1\n' in metrics
    assert 'num_requests_waiting{model_name="mock"} 1\n' in metrics
    assert status == 429
    assert server.counts.requests == 2


def test_a_key_and_a_header_are_needed_where_they_are_set():
    with mocked(key="sesame", headers=("X-Team: red",)) as (server, url):
        right = {"Authorization": "Bearer sesame", "X-Team": "red"}
        found = [ask(url, "models", headers)[0] for headers in ({}, {"X-Team": "red"}, right)]
        assert found == [401, 401, 200]
        assert "sesame" not in str(server.report())


def test_a_block_is_cached_with_all_that_is_before_it():
    cache = PrefixCache(10)
    words = [str(number) for number in range(40)]
    cache.store(words)  # two whole blocks of 16
    assert cache.match(words) == 32
    assert cache.match(words[:32]) == 16  # a last token is computed anew
    assert cache.match([*words[:16], "other", *words[17:]]) == 16
    assert cache.match(["other", *words[1:]]) == 0
    assert cache.usage == 0.2


def test_the_longest_unused_block_goes_first():
    cache = PrefixCache(2)
    first, second, third = ([name] * 17 for name in "abc")
    cache.store(first)
    cache.store(second)
    cache.match(first)
    cache.store(third)
    assert [cache.match(each) for each in (first, second, third)] == [16, 0, 16]


def test_a_shared_prefix_and_a_conversation_raise_the_hits():
    shared = " ".join(str(number) for number in range(48))
    with mocked() as (server, url):
        ask(url, prompt=f"{shared} first", max_tokens=16)
        ask(url, prompt=f"{shared} second", max_tokens=16)
        assert (server.counts.looked_up_tokens, server.counts.cached_tokens) == (98, 48)
        turns = [{"role": "user", "content": shared}]
        _, _, body = ask(url, "chat/completions", messages=turns, max_tokens=20)
        before = server.counts.cached_tokens
        answer = json.loads(body)["choices"][0]["message"]
        turns += [answer, {"role": "user", "content": "and then"}]
        _, _, body = ask(url, "chat/completions", messages=turns)
    # 51 tokens of the first turn and 20 of its answer are known: four blocks
    assert server.counts.cached_tokens - before == 64
    assert json.loads(body)["usage"]["prompt_tokens_details"]["cached_tokens"] == 64


def test_lateness_is_counted_by_percentile_and_by_second():
    lateness = Lateness()
    for _ in range(98):
        lateness.add(10.0, 10.0002)
    for _ in range(2):
        lateness.add(10.0, 10.5)  # 2 of 100 are late
    for _ in range(99):
        lateness.add(12.0, 12.5)  # too few to judge
    for _ in range(200):
        lateness.add(20.0, 20.0001)
    lateness.add(20.0, 20.004)  # 1 of 201
    for _ in range(500):
        lateness.add(30.0, 30.003)
    report = lateness.report()
    assert report.pieces == 100 + 99 + 201 + 500
    assert report.p50_s == pytest.approx(0.003, abs=2e-5)
    assert report.most_s == pytest.approx(0.5)
    assert (report.in_time_per_s, report.late_per_s) == (201, 500)


def test_a_server_says_at_its_end_how_late_it_was(tmp_path):
    report = tmp_path / "report.json"
    command = [*COMMAND, "--port", "0", "--ttft", "1ms", "--tpot", "1ms", "--report", str(report)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        ask(process.stdout.readline().strip(), prompt=PROMPT, **STREAM)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "6 tokens were sent" in told
    found = json.loads(report.read_text())
    assert (found["counts"]["requests"], found["counts"]["answer_tokens"], found["lateness"]["pieces"]) == (1, 6, 6)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--ttft", "soon"), "--ttft is 'soon'"),
        (("--answer-tokens", "many"), "--answer-tokens is 'many'"),
        (("--fault", "no-such"), "--fault is 'no-such'"),
        (("--fault", "cut-off:2"), "--fault is 'cut-off:2'"),
        (("--fault", "cut-off:nan"), "--fault is 'cut-off:nan'"),
        (("--require-header", "none"), "--require-header is 'none'"),
        (("--tls", "/none", "/none"), "--tls /none /none: No such file"),
        (("--host", "256.0.0.1"), "256.0.0.1:0 cannot be used"),
    ],
)
def test_a_bad_option_is_one_line(words, reason):
    done = invoke("mock-server", "--port", "0", *words)
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1), done.output
    assert reason in done.output


def test_a_port_that_is_taken_is_one_line(url):
    done = invoke("mock-server", "--port", url.split(":")[2].removesuffix("/v1"))
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1)
    assert "cannot be used: " in done.output


def test_a_client_that_hangs_up_frees_its_slot_and_its_stream():
    with mocked(slots=1, tpot="200ms") as (server, url):
        with sending(url, max_tokens=1000) as connection:
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
        status, _, _ = ask(url, prompt=PROMPT, max_tokens=1)
        assert status == 200
        assert (server.counts.running, server.counts.requests) == (0, 1)
        assert server.counts.answer_tokens < 100


def test_a_client_that_leaves_before_its_embedding_frees_its_slot():
    with mocked(slots=1, ttft="200ms") as (server, url):
        with sending(url, "embeddings", input="one"):
            wait_until(lambda: server.counts.running)
        status, _, _ = ask(url, "embeddings", input="one two")
    assert (status, server.counts.running, server.counts.requests, server.counts.prompt_tokens) == (200, 0, 1, 2)


def test_nothing_more_is_sent_to_a_client_that_has_hung_up(caplog):
    async def send():
        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        theirs.close()
        pieces = iter([(0.0, b"token")] * 100)
        await Pacer().send(PacedStream(pieces, transport))
        return len(list(pieces))

    assert asyncio.run(send()) > 90
    assert not caplog.records


def test_a_client_that_ends_its_side_early_is_no_error(caplog):
    """More is left to write than sockets keep, so that the connection closes while the server still writes."""
    with mocked(model="m" * 2000, tpot="100us") as (server, url), sending(url, max_tokens=12_000) as connection:
        wait_until(lambda: server.counts.answer_tokens > 6000)
        connection.shutdown(socket.SHUT_WR)
        wait_until(lambda: not server.counts.running)
    assert not [record for record in caplog.records if record.exc_info]


def test_embeddings_have_the_queue_the_model_and_the_faults_of_all_requests():
    with mocked(queue=0, slots=1, ttft="300ms", faults=("model-other",)) as (server, url):
        first = threading.Thread(target=ask, args=(url, "embeddings"), kwargs={"input": "one"})
        first.start()
        wait_until(lambda: server.counts.running)
        assert ask(url, "embeddings", input="one")[0] == 429
        first.join()
        assert ask(url, "embeddings", input="one", model="none")[0] == 404
        _, _, body = ask(url, "embeddings", input="one \ud800")
    assert json.loads(body)["model"] == "another-model"


def test_a_server_with_open_streams_ends_when_told():
    command = [*COMMAND, "--port", "0", "--fault", "silent"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        with sending(process.stdout.readline().strip()) as connection:
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200")
            process.send_signal(signal.SIGTERM)
            told, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "No token was sent" in told


def test_the_server_shares_no_reader_or_writer_of_the_protocol_with_the_client():
    """Else a mistake of the one would be hidden by the same mistake of the other."""
    files = Path(mock_server.__file__).parent.glob("*.py")
    imported = {name for file in files for name in re.findall(r"from mlbench_endpoint\.([\w.]+)", file.read_text())}
    assert {name for name in imported if not name.startswith("mock_server")} == {"loads.prompt_lengths", "loads.words"}
