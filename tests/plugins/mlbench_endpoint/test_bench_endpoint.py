"""``mlbench bench-endpoint`` against a server process that makes one token of each word."""

import csv
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from invoking import invoke, refusal
from mlbench_endpoint.sweep.report import table_lines
from mlbench_endpoint.sweep.results import results_of
from mock_process import serving

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.slow  # each starts a server and the process that talks to it

KEEPS = ("--ttft", "20ms", "--tpot", "2ms", "--key", "sesame", "--context", "450")


@pytest.fixture(scope="module")
def url():
    with serving(*KEEPS) as url:
        yield url


def bench(url, folder, *words, key="sesame"):
    places = ["--results", str(folder / "results"), "--out", str(folder / "out")]
    environment = {"MLBENCH_ENDPOINT_KEY": key, "MLBENCH_SETTINGS": str(folder / "none.toml")}
    return invoke("bench-endpoint", url, *places, *words, env=environment)


def read_requests(file):
    """Return the lines of a run's file of requests."""
    with file.open(newline="") as text:
        return [SimpleNamespace(**{name: int(each) for name, each in row.items()}) for row in csv.DictReader(text)]


SHORT = ("--tokens-in", "40", "--tokens-out", "8", "--seconds", "2")


@pytest.fixture(scope="module")
def sweep(url, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    words = (
        "--api",
        "chat",
        "--rate",
        "25",
        "--concurrency",
        "4",
        "--tag",
        "before",
        "--json",
        "--slo",
        "ttft=60s,e2e=60s",
    )
    done = bench(url, folder, *SHORT, *words)
    assert done.exit_code == 0, done.output
    return folder, {found["load"]["in_flight"]: found for found in json.loads(done.stdout)}


def test_a_sweep_has_throughput_and_times_of_tokens_for_each_load(sweep):
    _, found = sweep
    for each in found.values():
        assert each["requests"] >= 44
        assert each["answer_tokens"] == 8
        assert 20e6 <= each["ttft"]["ns"]["p50"] < 20e6 + 500e6  # what the server waits, and a busy machine's share
        # less than 2 ms, or unknown, where a busy machine's client reads tokens late, or all at once
        assert 0 < each["tpot"]["ns"].get("p50", 2e6) < 2e6 + 50e6
        assert 34e6 <= each["e2e"]["ns"]["p50"] < 34e6 + 500e6  # the first token, and seven more
        assert 34e6 / 8 <= each["e2e_per_token"]["ns"]["p50"] < 600e6 / 8
        assert each["itl"]["ns"].get("p50", 2e6) < 52e6
        assert each["goodput"]["share"]["value"] == 1
        assert each["problem"] == ""
    by_rate, by_places = found[None], found[4]
    assert by_rate["requests_per_s"] < 35  # 25 arrive, at random; a busy machine's last answers come late
    # four at once, each of which takes 34 ms at least
    assert by_places["requests_per_s"] <= 4 / 0.034
    assert by_places["tokens_per_s"] == pytest.approx(8 * by_places["requests_per_s"], rel=1e-4)


def test_throughput_is_of_all_requests_where_the_first_and_last_have_longer_answers(sweep):
    folder, found = sweep
    records = [json.loads(file.read_text()) for file in (folder / "results").glob("*/record.json")]
    record = next(each for each in records if each["scenario"] == "Concurrency")
    rows = [{**row, "mean": 7.0} if row["unit"] == "tokens" else row for row in record["engine"]["from_sending"]]
    (result,) = results_of([{**record, "engine": {**record["engine"], "from_sending": rows}}])
    assert (result.answer_tokens, result.requests_per_s) == (7, found[4]["requests_per_s"])


def test_the_first_and_last_requests_at_once_are_left_out(sweep):
    _, found = sweep
    left_out = {
        load: (each["window"]["left_out_at_start"], each["window"]["left_out_at_end"]) for load, each in found.items()
    }
    assert left_out == {None: (0, 0), 4: (4, 4)}
    steady = found[4]["window"]["requests_per_s"]
    assert steady["low"] <= steady["value"] <= min(steady["high"], 4 / 0.034)


def tables(lines):
    """Return the lines of tables: the notes below them may be longer."""
    return lines[: -lines[::-1].index("") - 1]


def test_a_wide_table_has_all_quantities_in_100_columns(sweep):
    folder, _ = sweep
    records = [json.loads(file.read_text()) for file in (folder / "results").glob("*/record.json")]
    lines = list(table_lines(results_of(records), is_wide=True))
    assert max(map(len, tables(lines))) <= 100
    names = ("  between chunks, ms", "  e2e per token, ms", "  req/s", "  tokens in/s", "  good req/s")
    for name in names:
        assert sum(line.startswith(name) for line in lines) == 2
    assert {line.split()[1] for line in lines if line.startswith("  good  ")} == {"100.0%"}


@pytest.mark.parametrize(
    ("is_wide", "p50_s", "percentiles"),
    [(False, 987, ["p50", "p99", "p50", "p99"]), (True, 0.9, ["p50", "p90", "p99"])],
)
def test_large_numbers_cost_a_table_columns_and_not_its_width(sweep, is_wide, p50_s, percentiles):
    folder, _ = sweep
    records = [json.loads(file.read_text()) for file in (folder / "results").glob("*/record.json")]
    result = next(each for each in results_of(records) if each.load.in_flight)
    ns = {"p50": int(p50_s * 1e9), "p90": 987_654_321_000, "p95": 987_654_321_000, "p99": 987_654_321_000}
    times = replace(result.ttft, ns=ns, intervals={name: (time - 1, time + 1) for name, time in ns.items()})
    rates = {"tokens_per_s": 9_876_543.2, "requests_per_s": 98_765.4}
    slow = replace(result, ttft=times, tpot=times, e2e=times, itl=times, e2e_per_token=times, **rates)
    lines = list(table_lines([slow], is_wide=is_wide))
    heading = next(line for line in lines if line.startswith("with 95 %" if is_wide else "load"))
    assert re.findall(r"p\d\d", heading.replace("e2e p90", "")) == percentiles
    assert max(map(len, tables(lines))) <= 100


def test_a_problem_is_the_rule_that_others_follow_from_in_words_of_the_command(sweep):
    folder, _ = sweep
    record = json.loads(next((folder / "results").glob("*/record.json")).read_text())
    failed = {"loadgen_result": "See the rules below.", "min_queries": "Raise load.min_query_count from 4 to 44."}
    said = []
    for names in (["loadgen_result"], ["loadgen_result", "min_queries"]):
        rules = [{"rule": name, "required": True, "passed": False, "fix": failed[name]} for name in names]
        said.append(results_of([{**record, "verdict": {"rules": rules}}])[0].problem)
    assert said == [
        "INVALID by loadgen_result: See the rules below.",
        "INVALID by min_queries: Raise --requests from 4 to 44.",
    ]


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
    assert record["precision"] == "unknown"
    rules = {rule["rule"] for rule in record["verdict"]["rules"]}
    assert {"loadgen_result", "replies_sound", "early_stopping"} <= rules
    assert "latency_limit" not in rules
    assert "processor time" not in record["stages_ns"]  # the server's is not the run's, so no engine is made for it
    assert record["not_measured"]["processor_time"].startswith("the samples were answered by processes that are not")


def test_the_servers_metrics_agree_with_the_counts_of_the_answers(sweep):
    folder, found = sweep
    for each in found.values():
        requests = read_requests(folder / "results" / each["run_id"] / "endpoint-requests.csv")
        metrics = each["server_metrics"]
        assert metrics["counters"]["prompt_tokens"] == sum(request.prompt_tokens for request in requests)
        assert metrics["counters"]["answer_tokens"] == sum(request.answer_tokens for request in requests)
        assert metrics["prefix_hit_rate"] == 0  # the first words are new each time
        assert metrics["remarks"] == []
        assert 0 <= metrics["gauges"]["running"]["median"] <= metrics["gauges"]["running"]["most"] <= 60
        lines = (folder / "results" / each["run_id"] / "endpoint-server.csv").read_text().splitlines()
        assert len(lines) == metrics["samples"] + 1


@pytest.mark.thorough("servers")
def test_a_shared_prefix_shows_in_the_servers_metrics(tmp_path):
    """Eight blocks of 16 tokens are shared; the first prompts, before the run, brought them into the cache."""
    with serving("--ttft", "5ms", "--tpot", "1ms") as url:
        done = bench(url, tmp_path, *SHORT, "--concurrency", "2", "--shared-prefix", "0.5:128", "--json", key="")
    (found,) = json.loads(done.stdout)
    requests = read_requests(tmp_path / "results" / found["run_id"] / "endpoint-requests.csv")
    shared = sum(request.prompt_tokens == 40 + 128 for request in requests)
    assert 0 < shared < len(requests)
    assert found["server_metrics"]["counters"]["cached_tokens"] == 128 * shared
    share = 128 * shared / (40 * len(requests) + 128 * shared)
    assert found["server_metrics"]["prefix_hit_rate"] == pytest.approx(share, abs=1e-4)


@pytest.mark.thorough("servers")
def test_a_server_that_counts_otherwise_in_its_metrics_is_told_of(tmp_path):
    with serving("--ttft", "5ms", "--tpot", "1ms", "--fault", "usage-wrong-prompt") as url:
        done = bench(url, tmp_path, *SHORT, "--concurrency", "2", key="")
    assert done.exit_code == 0, done.output
    assert "tokens of prompts, but its answers to this run count" in done.stdout


def test_the_curve_is_drawn(sweep):
    pytest.importorskip("vl_convert")
    folder, _ = sweep
    drawing = (folder / "out" / "curve.svg").read_text()
    assert "4 at once" in drawing
    assert "25/s" in drawing


def test_the_times_of_each_request_lie_beside_the_record(sweep):
    folder, found = sweep
    for each in found.values():
        requests = read_requests(folder / "results" / each["run_id"] / "endpoint-requests.csv")
        left_out = each["window"]["left_out_at_start"] + each["window"]["left_out_at_end"]
        assert len(requests) == each["requests"] + left_out
        assert all(one.first_ns - one.sent_ns >= 20e6 and one.answer_tokens == 8 for one in requests)


@pytest.mark.thorough("servers")
def test_two_sweeps_are_compared_load_by_load_across_their_urls(sweep):
    folder, _ = sweep
    words = ("--api", "chat", "--rate", "25", "--slo", "ttft=60s,e2e=60s", "--tag", "after")
    with serving(*KEEPS) as other:
        assert bench(other, folder, *SHORT, *words).exit_code == 0
    compare = ["compare", "before", "after", "--results", str(folder / "results")]
    refused = invoke(*compare)
    assert refused.exit_code == 1
    assert "settings differs" in refused.output
    compared = invoke(*compare, "--across", "backend.url", "--json")
    found = json.loads(compared.stdout)
    (cell,) = found["cells"]
    assert cell["name"].split()[2] == "Rate"
    assert "backend.url" in {each["fact"] for each in cell["differences"]}
    assert [name.split()[2] for name in found["missing"]] == ["Concurrency"]


@pytest.mark.thorough("servers")
def test_prompts_of_a_file_are_sent_as_they_are(url, tmp_path):
    file = tmp_path / "own.jsonl"
    file.write_text('{"prompt": "one two three", "max_tokens": 5}\n\n{"prompt": "four five six", "max_tokens": 5}\n')
    done = bench(url, tmp_path, "--prompts", str(file), "--concurrency", "2", "--seconds", "2", "--json")
    (found,) = json.loads(done.stdout)
    assert (found["prompt_tokens"], found["answer_tokens"]) == (3, 5)


def test_a_server_that_stops_after_one_token_is_told_of_before_anything_is_measured(tmp_path):
    with serving("--answer-tokens", "1") as url:
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
        (("--tokens-in", "500"), "maximum context length is 450 tokens, but 508 were requested"),
        (("--extra", "{"), "backend.extra is '{'"),
        (("--tag", "a/b"), "--tag is 'a/b'"),
        (("--resume",), "--resume needs the --tag to continue"),
        (("--key-variable", "NO_SUCH_KEY"), "the environment has no such variable"),
        (("--api-key-env", "NO_SUCH_KEY"), "the environment has no such variable"),
        (("--header-env", "X-Route=NO_SUCH_ROUTE"), "backend.header_variables is 'NO_SUCH_ROUTE'"),
        (("--header", "route"), "--header is not NAME=VALUE"),
        (("--ca", "nowhere.pem"), "which cannot be read as certificates"),
        (("--count", "words"), "backend.count is 'words'"),
        (("--count", "tokenizer:nowhere.json"), "cannot be read as a tokenizer"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_before_anything_is_measured(url, tmp_path, words, reason):
    assert reason in refusal(bench(url, tmp_path, *SHORT, *words))
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
    assert reason in refusal(bench(url, tmp_path, "--prompts", str(file)))


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
    assert "MLBENCH_ENDPOINT_KEY" in refused.output


@pytest.mark.thorough("servers")
def test_headers_of_the_command_line_are_sent_and_kept_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_HEADER_AUTHORIZATION", "")  # put back after the test
    with serving("--key", "s3cret-key", "--ttft", "50ms") as url:
        words = ("--header", "Authorization=Bearer s3cret-key", "--concurrency", "1", "--count", "chunks")
        done = bench(url, tmp_path, *SHORT, *words, key="")
    assert done.exit_code == 0, done.output
    assert "answers 8.0, by the count of chunks" in done.output
    assert "each chunk is counted as a token" in done.output
    kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert kept and not any(b"s3cret" in content for content in kept)


@pytest.mark.thorough("servers")
def test_a_rate_that_the_server_cannot_keep_up_with_ends_in_time_and_does_not_count(tmp_path):
    """One request at a time, of 54 ms: of those that come within 6 s only the first 112 can be answered in 6 s."""
    with serving("--ttft", "40ms", "--tpot", "2ms", "--slots", "1") as url:
        words = ("--rate", "60", "--requests", "300", "--timeout", "6", "--json")
        done = bench(url, tmp_path, *SHORT, *words, key="")
    (found,) = json.loads(done.stdout)
    assert done.exit_code == 1
    assert "INVALID by replies_sound" in found["problem"]
    assert "backend.total_timeout_s" in found["problem"]
