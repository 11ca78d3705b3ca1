"""Answers that came in one piece have no time per token, whatever a division would give."""

import pytest
from mlbench_endpoint.client.request_times import RequestTimes
from mlbench_endpoint.sweep.service_limits import ServiceLimits
from timed_answer import timed_answer

MS = 1_000_000
TTFT = 80 * MS


def answered(gaps_ns, *, end_ns=0):
    chunk_ns = [TTFT]
    for gap in gaps_ns:
        chunk_ns.append(chunk_ns[-1] + gap)
    return timed_answer(chunk_ns, sent_ns=1, end_ns=chunk_ns[-1] + end_ns, tokens=16)


def facts_of(*messages, slo=""):
    times = RequestTimes()
    for message in messages:
        times.add(message, 16)
    found = times.facts(ServiceLimits.of_text(slo))
    return {row.of: row for row in found.from_sending}, found


STREAMED = [5 * MS] * 15
TOGETHER = {
    "one chunk": [],
    "one read": [0] * 15,
    "two reads": [0] * 7 + [400_000] + [0] * 7,
}


@pytest.mark.parametrize("name", TOGETHER)
def test_times_of_tokens_that_came_together_are_unknown_with_the_reason(name):
    rows, found = facts_of(*[answered(TOGETHER[name], end_ns=20_000)] * 4)
    assert rows.keys() == {"first token", "answer", "answer per token", "prompt"}
    assert found.unknown.keys() == {"per output token", "inter-token"}
    assert "4 of 4 answers came together" in found.unknown["inter-token"]


def test_a_few_answers_that_came_together_are_remarked_on():
    rows, found = facts_of(*[answered(STREAMED)] * 19, answered([0] * 15))
    assert rows["per output token"].p50 == 5 * MS
    assert found.unknown is None
    assert "1 of 20 answers came together" in found.remarks[0]


@pytest.mark.parametrize("gap_ns", [200_000, MS])
def test_a_fast_model_after_a_long_prompt_is_measured(gap_ns):
    rows, found = facts_of(*[answered([gap_ns] * 15)] * 4)
    assert rows["per output token"].p50 == gap_ns
    assert (found.unknown, found.remarks) == (None, None)


def test_bursts_have_a_time_per_token_and_none_between_tokens():
    rows, found = facts_of(*[answered([0, 0, 0, 20 * MS] * 3 + [0, 0, 0])] * 4)
    assert rows["per output token"].p50 == 4 * MS
    assert found.unknown.keys() == {"inter-token"}
    assert "in bursts" in found.unknown["inter-token"]


def test_several_tokens_in_a_chunk_are_remarked_on():
    rows, found = facts_of(*[answered([20 * MS] * 3)] * 4)
    assert rows["inter-token"].p50 == 20 * MS
    assert "a chunk has 4 tokens on average" in found.remarks[0]


def test_more_chunks_than_counted_tokens_are_remarked_on():
    _, found = facts_of(*[answered([20 * MS] * 31)] * 4)
    assert "answers have 2 chunks for each token that is counted" in found.remarks[0]


@pytest.mark.parametrize(("slo", "is_known"), [("tpot=1s", False), ("itl=1s", False), ("ttft=1s", True)])
def test_no_answer_is_good_by_a_time_that_is_unknown(slo, is_known):
    _, found = facts_of(*[answered([0] * 15)] * 4, slo=slo)
    assert (found.goodput is not None) is is_known
