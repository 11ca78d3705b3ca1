"""What real LoadGen logs of tokens that tiny engines answer with."""

import dataclasses
import time

import numpy as np
import pytest
from driven_engines import LOAD, NUMBER, SEEDS, Doubles, run

from mlbench import Engine
from mlbench.loadgen.logs import read_detail
from mlbench.loadgen.scenarios import OFFLINE, SERVER
from mlbench.loadgen.settings import Mode, Test, TokenRules, loadgen_settings


class Speaks(Engine):
    """Two tokens a sample, the first at once."""

    def submit(self, samples, reply):
        reply.first_token(samples, np.full((len(samples), 1), 7, np.int64))
        time.sleep(0.001)
        reply.complete(samples, np.full((len(samples), 1), 9, np.float32), token_counts=[2] * len(samples))


def test_token_latencies_reach_loadgens_log(tmp_path):
    assert run(Speaks(), tmp_path, SERVER, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults == []
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    assert values["result_time_per_output_token_99.00_percentile_ns"] >= 1_000_000
    assert 0 < values["result_first_token_99.00_percentile_latency_ns"] < 2_000_000_000


class Counts(Doubles):
    """Reports the token counts it was made with."""

    def __init__(self, *counts):
        self.counts = counts

    def submit(self, samples, reply):
        reply.first_token(samples, np.full((len(samples), 1), 7, np.int64))
        reply.complete(samples, self.answers(samples), token_counts=self.counts or None)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ((0,), "token counts missing or below 1"),
        ((-3,), "token counts missing or below 1"),
        ((2, 2), "token counts missing or below 1"),
        ((), "no token count, and this workload is judged by tokens"),
    ],
)
def test_a_count_of_tokens_that_no_reply_can_have_is_a_fault(tmp_path, counts, told):
    faults = run(Counts(*counts), tmp_path, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults
    assert told in faults[0]


def test_an_accuracy_test_samples_no_replies_since_it_logs_them_all():
    test = Test(scenario=OFFLINE, mode=Mode.ACCURACY, load=LOAD, reply=NUMBER, seeds=SEEDS)
    assert loadgen_settings(test, 20).accuracy_log_sampling_target == 0
    measuring = dataclasses.replace(test, mode=Mode.PERFORMANCE)
    assert loadgen_settings(measuring, 20).accuracy_log_sampling_target == LOAD.reply_checks == 8


def test_inferred_tokens_are_counted_for_every_sample(tmp_path):
    run(Doubles(), tmp_path, OFFLINE, inferred_tokens=69)
    values = read_detail(tmp_path / "mlperf_log_detail.txt").values
    ratio = values["result_inferred_tokens_per_second"] / values["result_samples_per_second"]
    assert ratio == pytest.approx(69, rel=1e-4)


class SpeaksLate(Speaks):
    def submit(self, samples, reply):
        reply.complete(samples, np.zeros((len(samples), 1), np.float32), token_counts=[2] * len(samples))
        reply.first_token(samples, np.zeros((len(samples), 1), np.int64))


def test_a_first_token_after_the_reply_is_a_fault(tmp_path):
    faults = run(SpeaksLate(), tmp_path, OFFLINE, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults
    assert "first token after the reply" in faults[0]


def test_a_workload_judged_by_tokens_needs_token_counts(tmp_path):
    faults = run(Doubles(), tmp_path, OFFLINE, tokens=TokenRules(ttft_ms=2000, tpot_ms=200)).faults
    assert "no token count" in faults[0]
