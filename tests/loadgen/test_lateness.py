"""Late samples are counted while a test runs, and a test that cannot become valid is ended."""

import dataclasses
import time

import numpy as np
import pytest
from driven_engines import SEEDS, Numbers

from mlbench import Engine, ReplySpec
from mlbench.contracts.scenario import LoadSettings
from mlbench.loadgen.drive import drive
from mlbench.loadgen.lateness import LateCount, LateLimits
from mlbench.loadgen.logs import read_detail
from mlbench.loadgen.scenarios import SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, Test, TokenRules, late_allowed, loadgen_settings, planned_queries
from mlbench.loadgen.watchdog import ProgressCallbacks

MS = 1_000_000
LOAD = LoadSettings(
    min_duration_ms=1000,
    min_query_count=500,
    performance_sample_count=16,
    target_qps=2000,
    expected_latency_ns=20_000,
    reply_checks=8,
    end_at_late_share=0.05,
)
TEST = Test(
    scenario=SERVER,
    mode=Mode.PERFORMANCE,
    load=LOAD,
    reply=ReplySpec(dtype="float32", shape=(1,)),
    seeds=SEEDS,
    server_latency_ms=1,
)


class Slow(Engine):
    """Answers each sample well after the limit, before it takes the next: every one is late, however busy a machine."""

    submitted = 0

    def submit(self, samples, reply):
        self.submitted += len(samples)
        time.sleep(0.002)
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


class Fast(Engine):
    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32))


def test_a_test_is_ended_once_more_than_its_share_of_all_queries_was_late(tmp_path):
    engine = Slow()
    traffic = drive(TEST, engine, Numbers(), tmp_path, ProgressCallbacks())
    # 2000 queries a second for one second, of which 5 % may be late
    assert traffic.late.most == 100
    assert (traffic.late.late, traffic.late.is_ended) == (101, True)
    assert engine.submitted == 101 < traffic.issued < 2000
    assert traffic.answered == traffic.issued
    detail = read_detail(tmp_path / "mlperf_log_detail.txt")
    assert detail.values["result_validity"] == "INVALID"
    assert "Too many outstanding queries" in detail.errors[0]
    (fault,) = traffic.faults
    assert fault.startswith("ended early: 101 of ")
    assert fault.endswith("answers were late, and the whole test may have 100")


def test_a_test_whose_queries_are_in_time_runs_to_its_end(tmp_path):
    test = dataclasses.replace(TEST, server_latency_ms=60_000)
    traffic = drive(test, Fast(), Numbers(), tmp_path, ProgressCallbacks())
    assert (traffic.late.late, traffic.late.is_ended, traffic.faults) == (0, False, [])
    assert traffic.late.answered == traffic.issued
    assert read_detail(tmp_path / "mlperf_log_detail.txt").values["result_validity"] == "VALID"


@pytest.mark.parametrize(
    "change",
    [{"scenario": SINGLE_STREAM}, {"mode": Mode.ACCURACY}, {"load": dataclasses.replace(LOAD, end_at_late_share=0.0)}],
)
def test_nothing_is_counted_where_no_rate_is_sent_or_nothing_is_timed_or_nobody_asked(change):
    test = dataclasses.replace(TEST, **change)
    assert late_allowed(test, 20) is None
    assert loadgen_settings(test, 20).server_max_async_queries == 0


def test_loadgen_is_told_a_number_of_open_queries_that_only_late_ones_can_reach():
    # 100 late ones, twice the 2 that arrive within the limit of 1 ms, and a few
    assert loadgen_settings(TEST, 20).server_max_async_queries == 100 + 4 + 32


def test_with_equal_issue_whole_sets_are_sent():
    test = dataclasses.replace(TEST, equal_issue=True, load=dataclasses.replace(LOAD, min_duration_ms=0))
    assert planned_queries(test, 20) == 512  # 500, up to a multiple of the 16 that are loaded


def test_an_answer_of_tokens_may_take_as_long_as_both_limits_allow():
    tokens = TokenRules(ttft_ms=2000, tpot_ms=200)
    assert dataclasses.replace(TEST, tokens=tokens, longest_answer=11).patience_s == 4.0


@pytest.mark.parametrize(
    ("limits", "moments_ms", "tokens", "is_late"),
    [
        (LateLimits(latency_ns=10 * MS), (0, 10, 10), 1, False),
        (LateLimits(latency_ns=10 * MS), (0, 10, 11), 1, True),
        (LateLimits(ttft_ns=10 * MS, tpot_ns=5 * MS), (0, 9, 29), 5, True),  # 20 ms for four more tokens
        (LateLimits(ttft_ns=10 * MS, tpot_ns=5 * MS), (0, 9, 28), 5, False),
        (LateLimits(ttft_ns=10 * MS, tpot_ns=5 * MS), (0, 10, 12), 5, True),  # as the rules have it: strictly below
        (LateLimits(ttft_ns=10 * MS, tpot_ns=5 * MS), (0, 9, 9), 1, False),
    ],
)
def test_a_sample_is_late_beyond_any_limit(limits, moments_ms, tokens, is_late):
    assert limits.is_late(*(each * MS for each in moments_ms), tokens) is is_late


def test_first_tokens_count_from_when_the_sample_was_handed_over():
    count = LateCount(LateLimits(ttft_ns=60_000 * MS, tpot_ns=60_000 * MS), most=0)
    count.issued((1, 2))
    count.first_token((1, 2))
    count.complete((1, 2), (4, 1))
    count.complete((3,))  # nobody handed it over: a reply of an earlier test
    assert (count.answered, count.late, count.is_over) == (2, 0, False)
