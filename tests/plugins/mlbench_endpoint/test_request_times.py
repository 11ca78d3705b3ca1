"""Times of requests and of the gaps between their chunks, from messages with times chosen by hand."""

import csv
import dataclasses
import json

from mlbench_endpoint.client import request_times
from mlbench_endpoint.client.request_times import RequestTimes
from mlbench_endpoint.sweep.service_limits import ServiceLimits
from timed_answer import timed_answer


def times_of(*messages):
    times = RequestTimes()
    for message in messages:
        times.add(message, message.answer_tokens)
    return times


def rows(times):
    return {(each.of, each.unit): each for each in times.facts(ServiceLimits()).from_sending}


def test_gaps_are_between_chunks_and_the_time_per_token_is_per_token():
    """Four tokens in chunks at 100, 130 and 190; then two tokens at 50 and 60."""
    found = rows(times_of(timed_answer([100, 130, 190], tokens=4), timed_answer([50, 60])))
    gaps = found["inter-token", "ns"]
    assert (gaps.requests, gaps.values, gaps.least, gaps.p50, gaps.most) == (2, 3, 10, 30, 60)
    per_token = found["per output token", "ns"]
    assert (per_token.values, per_token.least, per_token.most) == (2, 10, 30)
    assert (found["first token", "ns"].least, found["answer", "ns"].most) == (50, 190)


def test_an_answer_in_one_chunk_has_no_gap():
    assert ("inter-token", "ns") not in rows(times_of(timed_answer([100], tokens=9)))


def test_a_95th_percentile_is_the_95th_of_a_hundred():
    found = rows(times_of(*(timed_answer([each]) for each in range(1, 101))))["first token", "ns"]
    assert (found.p50, found.p90, found.p95, found.p99, found.most) == (50, 90, 95, 99, 100)


def test_so_many_gaps_that_memory_would_end_are_thinned_out_evenly(monkeypatch):
    monkeypatch.setattr(request_times, "_MOST_GAPS", 100)
    times = times_of(*(timed_answer([0, 1, 3, 6, 10]) for _ in range(500)))
    gaps = rows(times)["inter-token", "ns"]
    assert 40 < gaps.values <= 100
    assert {gaps.least, gaps.most} <= {1, 2, 3, 4}
    assert gaps.requests == 500


def test_the_file_has_a_line_for_each_request(tmp_path):
    file = tmp_path / "requests.csv"
    times_of(timed_answer([100, 130], sent_ns=40), timed_answer([], sent_ns=50, end_ns=99, tokens=3)).write(file)
    with file.open(newline="") as text:
        first, second = csv.DictReader(text)
    names = ["asked_ns", "sent_ns", "first_ns", "end_ns", "prompt_tokens", "answer_tokens", "longest_gap_ns"]
    assert list(first.items()) == list(zip(names, ["40", "40", "100", "130", "7", "2", "30"], strict=True))
    assert list(second.items()) == list(zip(names, ["50", "50", "99", "99", "7", "3", "-1"], strict=True))


def test_quantities_are_json():
    assert json.dumps([dataclasses.asdict(each) for each in rows(times_of(timed_answer([5, 6]))).values()])
