"""LoadGen's logs: read as its own summaries print them, and refused in one line when they are damaged."""

import dataclasses
import gzip
import json
import re
import struct
import sys
import tracemalloc
from pathlib import Path

import pytest

from mlbench.errors import DataError
from mlbench.loadgen import scenarios
from mlbench.loadgen.logs import (
    AccuracyLog,
    DetailLog,
    read_accuracy,
    read_damaged_detail,
    read_detail,
    result_of,
    tokens_of,
)

LOGS = Path(__file__).parents[1] / "data" / "loadgen"


def detail_of(name):
    return read_detail(LOGS / f"{name}.detail.txt")


@pytest.mark.parametrize(
    ("name", "scenario", "token_key", "value", "unit"),
    [  # as the summary of the same run prints them
        ("single_stream", scenarios.SINGLE_STREAM, None, 2134459, "ns"),
        ("multi_stream", scenarios.MULTI_STREAM, None, 2262438, "ns"),
        ("server", scenarios.SERVER, None, 184.39, "samples/s"),
        ("offline", scenarios.OFFLINE, None, 91.6286, "samples/s"),
        ("server_tokens", scenarios.SERVER, "result_completed_tokens_per_second", 554.37, "tokens/s"),
        ("offline_tokens", scenarios.OFFLINE, "result_tokens_per_second", 1421.81, "tokens/s"),
        ("offline_inferred_tokens", scenarios.OFFLINE, "result_inferred_tokens_per_second", 1.00021e06, "tokens/s"),
    ],
)
def test_the_result_is_the_one_loadgen_prints(name, scenario, token_key, value, unit):
    result = result_of(detail_of(name), scenario, token_key=token_key)
    assert result.value == pytest.approx(value, abs=0.006 if value < 1000 else 0)
    assert result.unit == unit
    assert result.higher_is_better is (unit != "ns")


def test_a_latency_that_is_the_result_is_not_replaced_by_a_rate_of_tokens():
    by_latency = dataclasses.replace(
        scenarios.SERVER, name="Spikes", result_key="result_95.00_percentile_latency_ns", result_unit="ns"
    )
    detail = detail_of("server_tokens")
    result = result_of(detail, by_latency, token_key="result_completed_tokens_per_second")
    assert (result.unit, result.higher_is_better) == ("ns", False)
    assert result.value == detail.values["result_95.00_percentile_latency_ns"]


def test_percentiles_are_the_ones_loadgen_prints():
    server = result_of(detail_of("server"), scenarios.SERVER).latency_ns
    assert server["mean_latency"] == 2959086
    assert server["99.00_percentile_latency"] == 7131849
    assert "overlatency_query_count" not in server
    streams = result_of(detail_of("multi_stream"), scenarios.MULTI_STREAM).latency_ns
    assert streams["99.00_percentile_per_query_latency"] == 2201178
    tokens = result_of(detail_of("server_tokens"), scenarios.SERVER).latency_ns
    assert tokens["first_token_99.00_percentile_latency"] == 5845765
    assert tokens["time_per_output_token_99.00_percentile"] == 1452985
    assert {"time_to_output_token_min", "time_to_output_token_max", "time_to_output_token_mean"} < tokens.keys()


@pytest.mark.parametrize(
    ("name", "scenario", "token_key", "tokens"),
    [  # every answer of these logs has three tokens, or 69 are inferred; see make_logs.py
        ("server_tokens", scenarios.SERVER, "result_completed_tokens_per_second", 459 * 3),
        ("offline_tokens", scenarios.OFFLINE, "result_tokens_per_second", 32 * 3),
        ("offline_inferred_tokens", scenarios.OFFLINE, "result_inferred_tokens_per_second", 32 * 69),
    ],
)
def test_tokens_are_those_of_all_samples(name, scenario, token_key, tokens):
    """LoadGen leaves one sample out of a Server run's rate of samples, and none out of its rate of tokens."""
    assert tokens_of(detail_of(name), scenario, token_key) == pytest.approx(tokens, rel=2e-5)  # it prints six digits


def test_inferred_tokens_in_server_are_a_fixed_number_for_each_sample():
    values = {"result_completed_samples_per_sec": 50.0, "result_inferred_completed_tokens_per_second": 50.0 * 69}
    values |= {"result_query_count": 101, "generated_samples_per_query": 1}
    detail = DetailLog(values=values, errors=(), warnings=())
    key = "result_inferred_completed_tokens_per_second"
    assert tokens_of(detail, scenarios.SERVER, key) == pytest.approx(101 * 69)


def test_a_workload_that_is_not_judged_by_tokens_has_none():
    assert tokens_of(detail_of("server"), scenarios.SERVER, None) is None


def test_counts_are_queries_and_samples():
    counts = result_of(detail_of("multi_stream"), scenarios.MULTI_STREAM).counts
    assert (counts["queries"], counts["samples_per_query"], counts["loaded_samples"]) == (662, 8, 32)
    padded = result_of(detail_of("offline_equal_issue"), scenarios.OFFLINE).counts
    assert padded["samples_per_query"] == 64, "33 asked for, two whole sets sent"
    assert result_of(detail_of("server_overloaded"), scenarios.SERVER).counts["late_queries"] == 453
    tokens = result_of(detail_of("server_tokens"), scenarios.SERVER).counts
    assert "late_queries" not in tokens, "of queries whose tokens have limits LoadGen calls all late"


def test_a_stream_with_too_few_queries_has_no_result_rather_than_a_latency_of_zero():
    assert result_of(detail_of("single_stream_too_few"), scenarios.SINGLE_STREAM).value is None


def test_of_a_repeated_key_the_first_counts_and_errors_are_kept_apart():
    twice = detail_of("offline_answered_twice")
    assert twice.values["generic_message"] == "Starting performance mode"
    assert twice.errors == ("Attempted to complete a sample twice.",) * 32
    assert detail_of("offline").errors == ()
    assert twice.warnings == ()


def test_a_warning_is_no_error(tmp_path):
    text = (LOGS / "offline_answered_twice.detail.txt").read_text()
    log = tmp_path / "mlperf_log_detail.txt"
    log.write_text(text.replace('"is_error": true, "is_warning": false', '"is_error": false, "is_warning": true'))
    read = read_detail(log)
    assert (len(read.warnings), len(read.errors)) == (32, 0)


def test_a_log_of_an_accuracy_test_needs_no_verdict():
    assert detail_of("offline_accuracy").values["effective_test_mode"] == "AccuracyOnly"


@pytest.mark.parametrize("name", ["offline", "offline_accuracy"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_detail_log_cut_short_is_refused(tmp_path, name, share):
    text = (LOGS / f"{name}.detail.txt").read_text()
    cut = tmp_path / "mlperf_log_detail.txt"
    cut.write_text(text[: int(len(text) * share)].rpartition("\n")[0])
    with pytest.raises(DataError, match="truncated LoadGen log"):
        read_detail(cut)


def test_a_result_that_was_not_written_any_more_is_missed(tmp_path):
    text = (LOGS / "offline.detail.txt").read_text()
    cut = tmp_path / "mlperf_log_detail.txt"
    cut.write_text(text[: text.index('"result_samples_per_second"')].rpartition("\n")[0])
    with pytest.raises(DataError, match="no result_samples_per_second"):
        result_of(read_detail(cut), scenarios.OFFLINE)


@pytest.mark.parametrize(
    "broken", [':::MLLOG {"key": "sut_na', ":::MLLOG []", ':::MLLOG {"key": "sut_name"}', ":::MLLOG"]
)
def test_a_marked_line_that_is_no_record_is_named(tmp_path, broken):
    lines = (LOGS / "offline.detail.txt").read_text().splitlines()
    log = tmp_path / "mlperf_log_detail.txt"
    log.write_text("\n".join([*lines[:4], broken, *lines[4:]]))
    with pytest.raises(DataError, match=r"line 5 of .*mlperf_log_detail\.txt is invalid"):
        read_detail(log)


MLLOG = ':::MLLOG {"key": "k", "value": 1, "metadata": {}}'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            r':::MLLOG {"key": "error", "value": "can\'t open D:\inference\mlperf.conf"}',
            r"a backslash that is not a JSON escape, as in a Windows path, at character .*D:.*inference",
        ),
        (MLLOG + MLLOG, f"it contains two records, the second at character {len(MLLOG) + 1}: .*two processes"),
        (MLLOG + " {}", "more follows behind its record, at character"),
        (MLLOG[:-12], "it is cut off, at character"),
        (':::MLLOG {"key": "k", value: 1}', "Expecting property name .*value: 1"),
        (':::MLLOG {"key": [], "value": 1}', "its key or metadata is of another kind: .*key"),
        (':::MLLOG {"key": "num_errors", "value": NaN}', "LoadGen gave no number for num_errors"),
        (":::MLLOG [1]", "TypeError.*MLLOG"),
    ],
)
def test_a_broken_line_is_shown_with_its_number_and_its_fault(tmp_path, line, said):
    lines = (LOGS / "offline.detail.txt").read_text().splitlines()
    log = tmp_path / "mlperf_log_detail.txt"
    log.write_text("\n".join([*lines[:4], line, *lines[4:]]))
    with pytest.raises(DataError, match=rf"line 5 of .*mlperf_log_detail\.txt is invalid: .*{said}") as caught:
        read_detail(log)
    assert len(caught.value.message) < 600


@pytest.mark.parametrize("value", ["NaN", "-nan", "nan", "Infinity", "-Infinity"])
def test_a_figure_for_which_loadgen_gives_no_number_costs_only_itself(tmp_path, value):
    text = (LOGS / "offline.detail.txt").read_text()
    log = tmp_path / "log"
    log.write_text(re.sub(r'("result_mean_latency_ns", "value": )\d+', rf"\g<1>{value}", text))
    detail = read_detail(log)
    whole = read_detail(LOGS / "offline.detail.txt")
    assert list(detail.not_numbers) == ["result_mean_latency_ns"]
    assert detail.values == {key: each for key, each in whole.values.items() if key != "result_mean_latency_ns"}
    result = result_of(detail, scenarios.OFFLINE)
    assert result.value == result_of(whole, scenarios.OFFLINE).value
    assert "mean_latency" not in result.latency_ns


def test_a_result_that_is_no_number_is_named(tmp_path):
    text = (LOGS / "offline.detail.txt").read_text()
    log = tmp_path / "log"
    log.write_text(re.sub(r'("result_samples_per_second", "value": )[\d.]+', r"\g<1>NaN", text))
    with pytest.raises(DataError, match="LoadGen gave no number for result_samples_per_second: nan"):
        result_of(read_detail(log), scenarios.OFFLINE)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ((LOGS / "offline.detail.txt").read_text().encode("utf-16"), "it is text in UTF-16"),
        (
            b'"pid": 80, "tid": 80, "ts": 87044ns : version : .5a1 @ 3dd1e2b2a9\n',
            "it is a log in LoadGen's old text form",
        ),
        (b"", "it is empty"),
        (bytes(5000), "it is only zeros"),
    ],
)
def test_a_log_that_is_none_is_named_for_what_it_is(tmp_path, content, said):
    log = tmp_path / "mlperf_log_detail.txt"
    log.write_bytes(content)
    with pytest.raises(DataError, match=f"has no result_validity: {said}"):
        read_detail(log)
    with pytest.raises(DataError, match=f"does not begin with .*: {said}"):
        read_accuracy(log)


def test_a_damaged_log_is_read_as_far_as_it_goes_when_asked(tmp_path):
    whole = LOGS / "offline.detail.txt"
    assert read_damaged_detail(whole) == read_detail(whole)
    lines = whole.read_text().splitlines(keepends=True)
    broken = tmp_path / "broken.txt"
    broken.write_text("".join([*lines[:20], ":::MLLOG {\n", *lines[20:]]))
    found = read_damaged_detail(broken)
    assert len(found.values) == 20
    assert found.values.items() <= read_detail(whole).values.items()
    assert ["line 21 of" in error for error in found.errors] == [True]
    cut = tmp_path / "cut.txt"
    cut.write_text("".join(lines[:20]))
    assert read_damaged_detail(cut).values == found.values
    with pytest.raises(DataError, match="cannot be read"):
        read_damaged_detail(tmp_path / "missing.txt")


def test_lines_without_the_marker_mean_nothing(tmp_path):
    log = tmp_path / "mlperf_log_detail.txt"
    log.write_text("a word of the driver\n{\n" + (LOGS / "offline.detail.txt").read_text())
    assert read_detail(log).values == detail_of("offline").values


def test_replies_keep_their_index_and_bytes():
    replies = read_accuracy(LOGS / "server.accuracy.json")
    assert [reply.index for reply in replies] == [6, 24, 14, 0, 23], "as sampled, in order of completion"
    assert [struct.unpack("<i", reply.data)[0] for reply in replies] == [6, 24, 14, 0, 23]
    assert {reply.token_count for reply in replies} == {None}
    assert sorted(reply.index for reply in read_accuracy(LOGS / "offline_accuracy.accuracy.json")) == list(range(32))


def test_token_counts_come_with_the_replies():
    """The log is a Server run of Llama 2 70B, as the compliance test TEST06 of v4.1 reads it."""
    replies = read_accuracy(LOGS / "llama_server.accuracy.json")
    assert [(reply.index, reply.token_count) for reply in replies] == [(780, 7), (816, 8), (73, 4), (142, 4)]
    assert all(len(reply.data) == 4 * reply.token_count for reply in replies)
    assert replies[0].token_data == replies[0].data[:4] == bytes.fromhex("B5200000")


def test_a_log_without_first_tokens_has_none():
    assert {reply.token_data for reply in read_accuracy(LOGS / "server.accuracy.json")} == {None}


def read_or_problem(path):
    try:
        return read_accuracy(path)
    except DataError as error:
        return error.message


@pytest.mark.parametrize(
    "change",
    [
        (" : ", ":"),
        ("{ ", "{"),
        ('"qsl_idx" : ', '"qsl_idx" : 0'),
        ('"qsl_idx" : ', '"qsl_idx" : -'),
        ('"qsl_idx" : ', f'"qsl_idx" : {10**20}'),
        ('"qsl_idx"', '"index"'),
        ('"data" : "', '"data" : "0'),
        ('"data" : "', '"data" : "g0'),
        ('"data" : "', '"data" : "a b '),
        ('"token_count" : ', '"token_count" : 1.'),
        (" }", ' , "qsl_idx" : 5 }'),
        (" },", " }],"),
        (" },", " };"),
        ("", ""),
    ],
)
def test_lines_as_loadgen_writes_them_are_read_as_json_is(tmp_path, monkeypatch, change):
    """The quick reader of such a line and the one of any JSON say the same."""
    for log in LOGS.glob("*.accuracy.json"):
        path = tmp_path / log.name
        path.write_text(log.read_text().replace(*change))
        quick = read_or_problem(path)
        with monkeypatch.context() as patch:
            patch.setattr("mlbench.loadgen.logs._REPLY", re.compile("(?!)"))
            assert quick == read_or_problem(path)


def test_a_log_read_reply_by_reply_is_the_log_read_at_once():
    for name in ("server", "offline_accuracy", "llama_server"):
        path = LOGS / f"{name}.accuracy.json"
        log, whole = AccuracyLog(path), read_accuracy(path)
        assert len(log) == len(whole) > 3
        assert list(log) == list(log) == whole
        assert [log[place] for place in range(-len(log), len(log))] == whole * 2
        assert list(reversed(log)) == whole[::-1]
        assert log[1:3] == whole[1:3]
        with pytest.raises(IndexError):
            log[len(log)]


def test_a_log_read_reply_by_reply_is_never_in_memory_as_a_whole(tmp_path):
    path = tmp_path / "mlperf_log_accuracy.json"
    count, size = 64, 100_000
    entries = (f'{{ "seq_id" : {i}, "qsl_idx" : {i}, "data" : "{f"{i:02X}" * size}" }}' for i in range(count))
    path.write_text("[\n" + ",\n".join(entries) + "\n]\n")
    tracemalloc.start()
    try:
        assert [reply.data[0] for reply in AccuracyLog(path)] == list(range(count))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * size, "a reply or two, as bytes and as text on the way there"


def test_an_empty_reply_is_a_reply(tmp_path):
    log = tmp_path / "mlperf_log_accuracy.json"
    log.write_text('[\n{ "seq_id" : 0, "qsl_idx" : 3, "data" : "" }\n]\n')
    assert [reply.data for reply in read_accuracy(log)] == [b""]


def test_a_log_without_replies_is_empty(tmp_path):
    log = tmp_path / "mlperf_log_accuracy.json"
    log.write_text("[\n]\n")
    assert read_accuracy(log) == []


@pytest.mark.parametrize("lost", range(1, 300, 13))
def test_an_accuracy_log_cut_anywhere_is_refused_in_one_line(tmp_path, lost):
    text = (LOGS / "server.accuracy.json").read_text().rstrip()
    log = tmp_path / "mlperf_log_accuracy.json"
    log.write_text(text[:-lost])
    with pytest.raises(DataError, match="truncated LoadGen log") as caught:
        read_accuracy(log)
    assert "\n" not in str(caught.value)


def test_the_short_form_of_a_submission_is_distinguished_from_damage(tmp_path):
    entry = '{{ "seq_id" : {0}, "qsl_idx" : {0}, "data" : "{1}" }}'
    text = "[\n" + ",\n".join(entry.format(number, "AB" * 40) for number in range(200)) + "\n]\n"
    for head in (4096, text.index("\n", 4096), text.index("\n", 4096) + 1):
        log = tmp_path / "mlperf_log_accuracy.json"
        log.write_text(text[:head] + "\n\n...\n\n" + text[-4096:])
        with pytest.raises(DataError, match="shortened for a submission"):
            read_accuracy(log)


@pytest.mark.parametrize("read", [read_detail, read_accuracy])
def test_a_missing_log_is_named(tmp_path, read):
    with pytest.raises(DataError, match=r"nowhere\.txt: No such file"):
        read(tmp_path / "nowhere.txt")


def test_a_file_that_is_something_else_is_refused(tmp_path):
    packed = tmp_path / "mlperf_log_accuracy.json"
    packed.write_bytes(gzip.compress(json.dumps([1, 2]).encode()))
    with pytest.raises(DataError, match="does not begin with"):
        read_accuracy(packed)
    with pytest.raises(DataError, match="truncated"):
        read_detail(packed)


def test_reading_logs_needs_no_loadgen():
    import subprocess

    check = "import sys, mlbench.loadgen.logs; sys.exit('mlperf_loadgen' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
