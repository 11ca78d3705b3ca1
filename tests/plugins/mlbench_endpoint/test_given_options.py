"""Options of ``mlbench bench-endpoint`` that others leave without an effect."""

import json
import os

import pytest
from invoking import invoke, refusal

pytest.importorskip("aiohttp")

from mlbench_endpoint.sweep.command import bench_endpoint
from mlbench_endpoint.sweep.given_options import request_of
from mock_thread import mocked

SESSION = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "uno"}]


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace").write_text('{"at_s": 0, "tokens_in": 7, "tokens_out": 9}\n')
    (tmp_path / "plain.txt").write_text("one two\n")
    (tmp_path / "limited.jsonl").write_text(json.dumps({"messages": SESSION, "max_tokens": 4}))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("--tokens-in 5 --trace trace", "--tokens-in has no effect with --trace"),
        ("--tokens-in 5 --prompts plain.txt", "--tokens-in has no effect with --prompts"),
        ("--tokens-out 5 --trace trace", "--tokens-out has no effect with --trace"),
        ("--tokens-out 5 --api rerank", "--tokens-out has no effect with --api rerank"),
        ("--tokens-out 5 --prompts limited.jsonl", "--tokens-out has no effect on what --prompts contains"),
        ("--think-time 0s", "--think-time has no effect without --turns"),
        ("--think-time 1s --prompts plain.txt", "--think-time has no effect on what --prompts contains"),
        ("--history given --prompts limited.jsonl", "--history has no effect on what --prompts contains"),
        ("--history given --turns 2 --api chat", "--history has no effect without --prompts"),
        ("--documents 3", "--documents has no effect without --api rerank"),
        ("--image 8x8", "--image has no effect without --api chat"),
        ("--images-per-request 2 --api chat", "--images-per-request has no effect without --image"),
        ("--ignore-eos --api embeddings", "--ignore-eos has no effect with --api embeddings"),
        ("--arrival poisson --concurrency 2", "--arrival has no effect without --rate"),
        ("--speed 2", "--speed has no effect without --trace"),
        ("--trace trace --rate 2", "--trace has no effect with --concurrency, --rate or --ramp"),
        ("--seconds 5 --trace trace", "--seconds has no effect with --trace"),
        ("--requests 5 --ramp 1:2", "--requests has no effect with schedules alone"),
        ("--requests 5 --rate 2 --arrival constant", "--requests has no effect with schedules alone"),
        ("--wide --json", "--wide has no effect with --json"),
        ("--rate 1e-320 --requests 10", "--rate 9.99989e-321 takes more than a day for --requests 10"),
        ("--tag ..", "--tag is '..'"),
        ("--api embeddings --same-answers 4", "--same-answers has no effect with --api embeddings, whose numbers"),
        ("--header X-A=1 --header X_A=2", "--header X_A is given twice, or like another one"),
        ("--rate 9,1 --seconds 43 --requests 43", "--rate 1 for 43 s with --requests 43 is less than 44 requests"),
    ],
)
def test_an_option_without_an_effect_or_a_chance_is_refused_in_a_line(files, words, reason):
    done = invoke("bench-endpoint", "http://127.0.0.1:9/v1", *words.split())
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1), done.output
    assert reason in done.output


@pytest.mark.thorough("servers", but=["--tokens-out 5 --prompts plain.txt"])
@pytest.mark.parametrize(
    "words",
    [
        "--tokens-out 5 --prompts plain.txt",
        "--think-time 1s --turns 2 --api chat --history answers",
        "--arrival poisson --rate 2 --requests 50",
        "--rate 1 --seconds 44 --requests 1",
        "--rate 1 --arrival gamma:2 --seconds 2",
        "--requests 50 --ramp 1:2 --concurrency 2",
        "--find-goodput --slo ttft=1s --arrival constant --seconds 5 --requests 50",
    ],
)
def test_an_option_with_an_effect_is_taken(files, words):
    """No server is there to answer."""
    pytest.importorskip("aiohttp")
    done = invoke("bench-endpoint", "http://127.0.0.1:9/v1", *words.split())
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1)
    assert "does not answer" in done.output


@pytest.mark.parametrize(
    ("words", "processes"), [([], "auto"), (["--clients", "auto"], "auto"), (["--clients", "2"], 2)]
)
def test_several_processes_share_the_requests_in_flight_where_the_user_says_so(words, processes):
    context = bench_endpoint.make_context("bench-endpoint", ["http://localhost:9/v1", *words])
    assert request_of(dict(context.params), {}).backend.client_processes == processes


def test_two_sweeps_of_the_same_second_have_folders_of_their_own():
    """Else one would run the loads that the other wrote into its suite file."""
    asked = [bench_endpoint.make_context("bench-endpoint", ["http://localhost:9/v1"]).params for _ in range(2)]
    first, second = (request_of(dict(params), {}) for params in asked)
    assert first.folder != second.folder
    assert first.folder.name == first.tag


@pytest.mark.parametrize("count", ["0", "65", "two"])
def test_what_is_no_number_of_processes_is_refused(count):
    assert "--clients" in refusal(invoke("bench-endpoint", "http://127.0.0.1:9/v1", "--clients", count))


@pytest.mark.parametrize(
    ("words", "way_out"),
    [("--trace trace", "Lower --speed, or give a longer trace."), ("--ramp 0.01:0.01 --seconds 2", "Raise --seconds.")],
)
def test_a_schedule_that_is_shorter_than_any_run_is_refused_with_the_way_out(files, words, way_out):
    with mocked() as (_, url):
        done = invoke("bench-endpoint", url, *words.split())
    assert done.exit_code == 2
    assert "a run takes 2 s" in done.output
    assert way_out in done.output


def test_a_file_whose_name_no_suite_holds_is_refused(tmp_path):
    file = tmp_path / os.fsdecode(b"a\xff.txt")
    file.write_text("one two\n")
    with mocked() as (_, url):
        done = invoke("bench-endpoint", url, "--prompts", file, "--concurrency", 1, "--out", tmp_path)
    assert (done.exit_code, "is not UTF-8" in done.output) == (2, True), done.output
