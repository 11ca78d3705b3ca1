"""Answers under load, compared with those to the same prompts alone."""

import dataclasses
import json

import pytest
from invoking import invoke, refusal
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.loads.prompts import open_prompts
from mlbench_endpoint.options import EndpointOptions
from mlbench_endpoint.sweep.same_answers import AnswerComparison, LoneAnswer, read_alone

from mlbench import DataError, Samples, UsageError
from mlbench.toolkit import AwaitedReply

pytest.importorskip("aiohttp")

from mlbench_endpoint.sweep.lone_answers import ask_alone
from mlbench_endpoint.sweep.server_trial import open_engine
from mock_process import serving
from mock_thread import mocked

PROMPTS = PromptOptions(tokens_in="24", tokens_out="8", count=20)
COUNT = 10


def test_the_first_difference_is_counted_in_chunks():
    compared = AnswerComparison({"p": LoneAnswer(text="one two three", is_stable=True)})
    for answer, sizes in (
        ("one two three", [3, 4, 6]),
        ("one two tree", [3, 4, 5]),  # in the third chunk
        ("uno two three", [3, 4, 6]),  # in the first
        ("one two", [3, 4]),  # after the second, the last
        ("one two three", [13]),
        ("one to three", [12]),  # all in one chunk
    ):
        compared.add("p", answer, sizes)
    compared.add("another prompt", "one", [3])
    found = compared.result()
    assert (found.compared, found.different) == (6, 4)
    assert compared.places == [3, 1, 3, 1]
    assert (found.first_difference.least, found.first_difference.most) == (1, 3)
    assert found.share.value == pytest.approx(4 / 6)


def test_prompts_whose_answers_differ_alone_are_left_out():
    compared = AnswerComparison({"p": LoneAnswer(text="one", is_stable=False)})
    compared.add("p", "two", [3])
    found = compared.result()
    assert (found.compared, found.different, found.prompts, found.unstable_alone) == (0, 0, 1, 1)
    assert found.first_difference is None


def different(folder, requests, *faults):
    """Return the comparison of a number of requests, 16 at once."""
    with mocked(faults=faults, ttft="4ms", tpot="1ms") as (_, url):
        options = EndpointOptions(url=url, connections=16)
        file = folder / "alone.jsonl"
        data = open_prompts(ask_alone(options, PROMPTS, COUNT, file))
        assert data.count == COUNT
        with open_engine(dataclasses.replace(options, alone=str(file)), 8) as engine:
            engine.warm_up(Samples([0], [0], data))
            reply = AwaitedReply(requests)
            engine.submit(Samples(list(range(requests)), [each % COUNT for each in range(requests)], data), reply)
            assert reply.wait(60)
            assert not reply.failure
            return engine.statistics().extra["same_answers"]


@pytest.mark.thorough("servers")
def test_answers_of_a_server_that_keeps_them_are_the_same(tmp_path):
    found = different(tmp_path, 200)
    assert (found["compared"], found["different"]) == (200, 0)
    assert found["unstable_alone"] == 0


def test_the_share_of_a_server_that_changes_a_fifth_is_within_the_interval(tmp_path):
    found = different(tmp_path, 600, "differs-under-load:0.2")
    assert found["compared"] == 600
    assert found["share"]["low"] <= 0.2 <= found["share"]["high"]
    assert found["share"]["high"] - found["share"]["low"] < 0.08
    assert 1 <= found["first_difference"]["least"] <= found["first_difference"]["most"] <= 8  # tokens of an answer


@pytest.mark.thorough("servers")
def test_the_prompts_are_fixed_and_their_answers_lie_beside_them(tmp_path):
    file = tmp_path / "sweep" / "alone.jsonl"
    with mocked() as (server, url):
        ask_alone(EndpointOptions(url=url), PROMPTS, COUNT, file)
        assert server.counts.requests == 2 * COUNT
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert {len(line["prompt"].split()) for line in lines} == {24}
    assert all(line["answer"] == line["again"] and len(line["answer"].split()) == 8 for line in lines)
    data = open_prompts(PromptOptions(file=str(file)))
    assert not any(data.sample(index).new_words for index in range(COUNT))


@pytest.mark.parametrize("line", ["{", "[]", '{"prompt": "a", "answer": 7, "again": "b"}', '{"prompt": "a"}'])
def test_a_file_that_holds_no_answers_is_one_line(tmp_path, line):
    file = tmp_path / "alone.jsonl"
    file.write_text(f'{{"prompt": "a", "answer": "b", "again": "b"}}\n{line}\n')
    with pytest.raises(DataError, match=r"alone\.jsonl, line 2 has no prompt"):
        read_alone(file)


def test_images_and_sessions_have_no_answers_alone(tmp_path):
    options = dataclasses.replace(PROMPTS, turns=3)
    with mocked() as (_, url), pytest.raises(UsageError, match="--same-answers is for prompts"):
        ask_alone(EndpointOptions(url=url), options, COUNT, tmp_path / "alone.jsonl")
    assert not list(tmp_path.iterdir())


def bench(*words):
    return invoke("bench-endpoint", *words)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--max-different", "1%"), "--max-different is a limit of --same-answers"),
        (("--same-answers", "--max-different", "2"), "'2' is no share"),
        (("--same-answers", "--max-different", "nan"), "'nan' is no share"),
        (("--same-answers", "8", "--slo", "ttft=1s", "--find-goodput"), "--same-answers is for given loads"),
    ],
)
def test_options_without_a_meaning_are_one_line(words, reason):
    assert reason in refusal(bench("http://127.0.0.1:9/v1", *words))


@pytest.mark.slow
@pytest.mark.thorough("servers")
def test_a_sweep_in_which_no_answer_was_compared_does_not_pass(tmp_path):
    """The only prompt has another answer each time, even alone."""
    (tmp_path / "alone.jsonl").write_text('{"prompt": "a b", "max_tokens": 8, "answer": "c", "again": "d"}\n')
    words = ["--results", tmp_path / "results", "--out", tmp_path, "--tag", "a", "--resume", "--tokens-out", 8]
    words += ["--seconds", 2, "--concurrency", "1", "--same-answers", 1, "--max-different", "90%", "--metrics", "none"]
    with serving("--ttft", "5ms", "--tpot", "1ms") as url:
        done = bench(url, *words)
    assert done.exit_code == 1, done.output
    assert "1 at once: no answer was compared" in done.stderr


@pytest.mark.slow
@pytest.mark.thorough("servers")
def test_a_sweep_fails_beyond_the_limit_and_names_the_load(tmp_path):
    words = ["--results", tmp_path / "results", "--out", tmp_path / "out", "--tokens-in", 24, "--tokens-out", 8]
    words += ["--seconds", 2, "--concurrency", "1,4", "--same-answers", 8, "--json", "--metrics", "none"]
    with serving("--ttft", "5ms", "--tpot", "1ms", "--fault", "differs-under-load:0.5") as url:
        failed = bench(url, *words, "--max-different", "10%")
        passed = bench(url, *words, "--max-different", "90%")
    assert (failed.exit_code, passed.exit_code) == (1, 0), failed.output
    assert "4 at once: " in failed.stderr
    assert "more than 10.00%" in failed.stderr
    alone, loaded = json.loads(failed.stdout)
    assert (alone["same_answers"]["different"], alone["server_metrics"]) == (0, None)
    assert 0.2 < loaded["same_answers"]["share"]["value"] < 0.8  # a draw of half of some dozens
    record = json.loads((tmp_path / "results" / loaded["run_id"] / "record.json").read_text())
    assert record["engine"]["same_answers"] == loaded["same_answers"]
