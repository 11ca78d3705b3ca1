"""``mlbench bench-endpoint`` against a server process that makes one token of each word."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from mlbench.cli import main

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.slow  # each starts a server and the process that talks to it

SERVER = Path(__file__).with_name("text_server.py")


@contextmanager
def serving(**script):
    command = [sys.executable, str(SERVER), json.dumps(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def url():
    with serving(first_s=0.02, token_s=0.002, key="sesame", context=400) as url:
        yield url


def bench(url, folder, *words, key="sesame"):
    places = ["--results", str(folder / "results"), "--out", str(folder / "out")]
    environment = {"MLBENCH_ENDPOINT_KEY": key, "MLBENCH_SETTINGS": str(folder / "none.toml")}
    return CliRunner().invoke(main, ["bench-endpoint", url, *places, *words], env=environment)


SHORT = ("--tokens-in", "40", "--tokens-out", "8", "--seconds", "2")


@pytest.fixture(scope="module")
def sweep(url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    words = ("--api", "chat", "--rate", "25", "--concurrency", "4", "--tag", "before", "--json")
    done = bench(url, folder, *SHORT, *words)
    assert done.exit_code == 0, done.output
    return folder, {found["load"]["in_flight"]: found for found in json.loads(done.stdout)}


def test_a_sweep_has_throughput_and_times_of_tokens_for_each_load(sweep):
    _, found = sweep
    for each in found.values():
        assert each["requests"] >= 44
        assert each["answer_tokens"] == 8
        assert 20e6 <= each["ttft"]["ns"]["p50"] < 20e6 + 500e6  # what the server waits, and a busy machine's share
        assert 2e6 <= each["tpot"]["ns"]["p50"] < 2e6 + 50e6
        assert each["problem"] == ""
    by_rate, by_places = found[None], found[4]
    assert by_rate["requests_per_s"] < 35  # 25 arrive, at random; a busy machine's last answers come late
    # four at once, each of which takes 34 ms at least
    assert by_places["requests_per_s"] <= 4 / 0.034
    assert by_places["tokens_per_s"] == pytest.approx(8 * by_places["requests_per_s"])


def test_times_say_whose_they_are(sweep):
    _, found = sweep
    assert [found[load]["ttft"]["source"] for load in (None, 4)] == ["LoadGen", "from sending"]


def test_a_percentile_of_too_few_requests_is_left_out(sweep):
    """44 requests make a 90th percentile sure, and 459 a 99th: tables of LoadGen's early stopping."""
    _, found = sweep
    for each in found.values():
        assert ("p99" in each["ttft"]["ns"]) is (each["requests"] >= 459)
        assert "p90" in each["ttft"]["ns"]


def test_generated_prompts_have_the_length_that_was_asked_for_by_the_servers_count(sweep):
    _, found = sweep
    assert [each["prompt_tokens"] for each in found.values()] == [40, 40]  # three of them are the chat's template


def test_runs_are_stored_under_rules_of_their_own_and_never_conformant(sweep):
    folder, found = sweep
    record = json.loads((folder / "results" / found[None]["run_id"] / "record.json").read_text())
    assert (record["workload"], record["tag"], record["scenario"]) == ("prompts", "before", "Rate")
    assert record["verdict"]["is_valid"]
    assert not record["verdict"]["is_conformant"]
    rules = {rule["rule"] for rule in record["verdict"]["rules"]}
    assert {"loadgen_result", "replies_sound", "early_stopping"} <= rules
    assert "latency_limit" not in rules


def test_the_curve_is_drawn(sweep):
    pytest.importorskip("vl_convert")
    folder, _ = sweep
    drawing = (folder / "out" / "curve.svg").read_text()
    assert "4 at once" in drawing
    assert "25/s" in drawing


@pytest.mark.thorough("servers")
def test_two_sweeps_are_compared_load_by_load_across_their_urls(sweep):
    folder, _ = sweep
    words = ("--api", "chat", "--rate", "25", "--tag", "after")
    with serving(first_s=0.02, token_s=0.002, key="sesame", context=400) as other:
        assert bench(other, folder, *SHORT, *words).exit_code == 0
    compare = ["compare", "before", "after", "--results", str(folder / "results")]
    refused = CliRunner().invoke(main, compare)
    assert refused.exit_code == 1
    assert "settings differs" in refused.output
    compared = CliRunner().invoke(main, [*compare, "--across", "backend.url", "--json"])
    found = json.loads(compared.stdout)
    (cell,) = found["cells"]
    assert cell["name"].split()[2] == "Rate"
    assert "backend.url" in {each["fact"] for each in cell["differences"]}
    assert [name.split()[2] for name in found["missing"]] == ["Concurrency"]


def test_prompts_of_a_file_are_sent_as_they_are(url, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"prompt": "one two three", "max_tokens": 5}\n\n{"prompt": "four five six", "max_tokens": 5}\n')
    done = bench(url, tmp_path, "--prompts", str(file), "--concurrency", "2", "--seconds", "2", "--json")
    (found,) = json.loads(done.stdout)
    assert (found["prompt_tokens"], found["answer_tokens"]) == (3, 5)


def test_a_server_that_stops_after_one_token_is_told_of_before_anything_is_measured(tmp_path):
    with serving(stops_after=1) as url:
        done = bench(url, tmp_path, *SHORT, key="")
    assert done.exit_code == 2
    assert "counts 1 token, but a time per token needs 2" in done.output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--rate", "0"), "'0' is not a rate above 0"),
        (("--rate", "nan"), "'nan' is not a rate above 0"),
        (("--concurrency", "1,x"), "'x' is not a number above 0"),
        (("--rate", "2,2"), "has a number twice"),
        (("--rate", "900000"), "more than 1,000,000 requests"),
        (("--rate", "200000"), "cannot be sustained: a single answer takes"),
        (("--concurrency", "100000"), "more than 4096 connections"),
        (("--model", "other"), "no model 'other'"),
        (("--tokens-in", "many"), "workload.tokens_in is 'many'"),
        (("--tokens-in", "uniform:9:3"), "workload.tokens_in is 'uniform:9:3'"),
        (("--tokens-in", "0"), "workload.tokens_in is '0'"),
        (("--tokens-in", "4000"), "a prompt of 4000 tokens is too long"),
        (("--extra", "{"), "backend.extra is '{'"),
        (("--tag", "a/b"), "--tag is 'a/b'"),
        (("--resume",), "--resume needs the --tag to continue"),
        (("--key-variable", "NO_SUCH_KEY"), "the environment has no such variable"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_before_anything_is_measured(url, tmp_path, words, reason):
    done = bench(url, tmp_path, *SHORT, *words)
    assert done.exit_code == 2, done.output
    assert reason in done.output
    assert len(done.output.splitlines()) == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "prompts file"),
        (b"\xff\xfe", "it is text in UTF-16. Save it as UTF-8"),
        (b"\xe4\xfc", "not UTF-8"),
        (b"\n \n", "has no prompt"),
        (b'{"prompt": 7}', "line 1: '{\"prompt\": 7}' is not a prompt"),
        (b'{"prompt": "a", "max_tokens": 0}', "line 1: max_tokens is 0"),
    ],
    ids=["missing", "UTF-16", "not UTF-8", "blank", "a number", "no tokens"],
)
def test_a_bad_file_of_prompts_is_one_line(url, tmp_path, content, reason):
    file = tmp_path / "own.jsonl"
    if content is not None:
        file.write_bytes(content)
    done = bench(url, tmp_path, "--prompts", str(file))
    assert done.exit_code == 2, done.output
    assert reason in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize("address", ["localhost:8000/v1", "ftp://localhost/v1", ""])
def test_a_url_without_http_is_one_line(tmp_path, address):
    done = bench(address, tmp_path, *SHORT)
    assert (done.exit_code, len(done.output.splitlines())) == (2, 1)
    assert "http://localhost:8000/v1" in done.output


def test_a_server_that_is_away_and_one_that_wants_another_key_are_one_line(url, tmp_path):
    away = bench("http://127.0.0.1:9/v1", tmp_path, *SHORT)
    refused = bench(url, tmp_path, *SHORT, key="wrong")
    assert [(done.exit_code, len(done.output.splitlines())) for done in (away, refused)] == [(2, 1), (2, 1)]
    assert "does not answer" in away.output
    assert "401" in refused.output


@pytest.mark.thorough("servers")
def test_a_rate_that_the_server_cannot_keep_up_with_ends_in_time_and_does_not_count(tmp_path):
    """One request at a time, of 54 ms: of those that come within 6 s only the first 112 can be answered in 6 s."""
    with serving(first_s=0.04, token_s=0.002, slots=1) as url:
        words = ("--rate", "60", "--requests", "300", "--timeout", "6", "--json")
        done = bench(url, tmp_path, *SHORT, *words, key="")
    (found,) = json.loads(done.stdout)
    assert done.exit_code == 1
    assert "INVALID by replies_sound" in found["problem"]
    assert "backend.total_timeout_s" in found["problem"]
