"""What a job asks of LoadGen: limits of the rules, seeds of the round, and the rate that the engine seems to hold."""

import contextlib
import dataclasses
import time
from types import SimpleNamespace

import numpy as np
import pytest
from measured_parts import MODEL, Numbers, One

from mlbench import Engine, EnginePlan
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.logs import AccuracyLog, read_detail
from mlbench.loadgen.scenarios import MULTI_STREAM, OFFLINE, SERVER, SINGLE_STREAM
from mlbench.loadgen.settings import Mode, TokenRules
from mlbench.measurement import chosen_load, loadgen_tests
from mlbench.measurement.chosen_load import with_observed_speed
from mlbench.measurement.job import callbacks_to, test_of
from mlbench.measurement.loadgen_tests import LoadGenTests
from mlbench.measurement.running_engine import RunningEngine
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import official_limits

test_of.__test__ = False  # not a test class for pytest

SCENARIOS = pytest.mark.parametrize(
    "scenario", [SINGLE_STREAM, MULTI_STREAM, SERVER, OFFLINE], ids=lambda each: each.name
)
SPEC = SimpleNamespace(audit="", network=None)


def asked(rules, scenario, mode=Mode.PERFORMANCE, **changes):
    """Return the test that a job of a workload asks for under the official limits."""
    limits = dataclasses.replace(official_limits(official_rules(rules), scenario), **changes)
    job = SimpleNamespace(spec=SPEC, plan=EnginePlan(), scenario=scenario, rules=official_rules(rules))
    return test_of(job, MODEL, limits, LoadSettings(), mode)


@SCENARIOS
def test_the_seeds_are_those_of_round_v4_1(scenario):
    """As the official mlperf.conf of v4.1 has them."""
    seeds = asked("resnet50", scenario).seeds
    assert (seeds.qsl, seeds.sample_index, seeds.schedule) == (
        3066443479025735752,
        10688027786191513374,
        14962580496156340209,
    )


@pytest.mark.parametrize(
    ("rules", "latency_ms"), [("resnet50", 15), ("retinanet", 100), ("bert", 130), ("dlrm-v2", 60), ("gptj", 20_000)]
)
def test_server_has_the_latency_limit_of_the_rules(rules, latency_ms):
    """As the official mlperf.conf of v4.1 has it."""
    assert asked(rules, SERVER).server_latency_ms == latency_ms
    assert asked(rules, SERVER).tokens is None


def test_a_workload_that_is_judged_by_tokens_has_limits_of_the_first_and_of_each():
    """2 s and 200 ms for Llama 2, by the official mlperf.conf of v4.1."""
    found = asked("llama2-70b", SERVER)
    assert found.tokens == TokenRules(ttft_ms=2000, tpot_ms=200)
    assert found.server_latency_ms is None


def test_tokens_are_counted_offline_too_without_limits():
    assert asked("llama2-70b", OFFLINE).tokens == TokenRules(ttft_ms=0, tpot_ms=0)


def test_gptj_has_69_tokens_a_sample_whatever_it_answers():
    """By the official mlperf.conf of v4.1, `gptj.*.infer_token_latencies` and its scaling factor."""
    assert asked("gptj", OFFLINE).inferred_tokens == 69
    assert asked("gptj", OFFLINE).tokens is None


@pytest.mark.parametrize(
    ("rules", "is_equal"), [("3d-unet", True), ("llama2-70b", True), ("gptj", True), ("resnet50", False)]
)
def test_samples_of_different_sizes_are_issued_equally_often(rules, is_equal):
    """By the official mlperf.conf of v4.1, `sample_concatenate_permutation`."""
    assert asked(rules, OFFLINE).equal_issue is is_equal


@SCENARIOS
@pytest.mark.parametrize("mode", Mode)
def test_a_test_is_of_the_jobs_scenario_and_of_its_mode(scenario, mode):
    found = asked("resnet50", scenario, mode)
    assert (found.scenario, found.mode, found.reply) == (scenario, mode, One.reply)


class Channel:
    """What a run's process tells its parent, kept."""

    def __init__(self):
        self.told, self.reasons = [], []

    def progress(self, stage, fact=None):
        self.told.append((stage, fact))

    def stuck(self, reason):
        self.reasons.append(reason)


def test_the_parent_process_hears_why_a_test_is_stuck():
    channel = Channel()
    callbacks_to(channel, "performance", asked("resnet50", OFFLINE), 40).stuck("no answer for 60 s")
    assert channel.reasons == ["no answer for 60 s"]


class Numbered(Engine):
    """Answers each sample with its index at once, or with what spoils the reply."""

    spoilt = None

    def submit(self, samples, reply):
        values = samples.indices if self.spoilt is None else [self.spoilt] * len(samples)
        reply.complete(samples, np.array(values, np.float32)[:, None])


class Section(contextlib.AbstractContextManager):
    """Counts how often it was entered."""

    entered = 0

    def __enter__(self):
        self.entered += 1

    def __exit__(self, *error):
        pass


@pytest.fixture
def tests_of(tmp_path):
    """Return the tests of a job in a scenario, of an engine that answers at once."""

    def tests_of(scenario, engine=None, **load):
        load = LoadSettings(**{"min_duration_ms": 60, "min_query_count": 1, **load})
        job = SimpleNamespace(
            spec=SPEC,
            plan=EnginePlan(),
            scenario=scenario,
            load=load,
            folder=tmp_path,
            rules=official_rules("resnet50"),
        )
        limits = dataclasses.replace(official_limits(official_rules("resnet50"), scenario), performance_sample_count=40)
        if limits.offline_min_samples:
            limits = dataclasses.replace(limits, offline_min_samples=40)
        ready = RunningEngine(
            engine=engine or Numbered(), dataset=Numbers(), vary=None, runtime=dict, peak_memory_bytes=lambda: 0
        )
        return LoadGenTests(job, MODEL, Numbers(), limits, Channel(), ready)

    return tests_of


def detail(tmp_path, mode):
    return read_detail(tmp_path / mode / "mlperf_log_detail.txt").values


def pace_of(**changes):
    return SpeedEstimate(**{"rate_per_s": 1000.0, "latency_ns": 10**6, "fastest_ns": 10**6, **changes})


def test_an_accuracy_test_asks_for_every_sample_once_and_twenty_times_as_fast(tests_of, tmp_path):
    tests_of(SERVER, target_qps=100.0).drive_accuracy(pace_of())
    assert detail(tmp_path, Mode.ACCURACY)["effective_target_qps"] == 2000
    replies = AccuracyLog(tmp_path / Mode.ACCURACY / "mlperf_log_accuracy.json")
    assert sorted(reply.index for reply in replies) == list(range(40))


def test_a_rate_that_an_accuracy_test_reached_raises_the_estimate_and_never_lowers_it(tests_of):
    slow, fast = pace_of(rate_per_s=0.001), pace_of(rate_per_s=1e12)
    _, found = tests_of(OFFLINE).drive_accuracy(slow)
    assert found.rate_per_s > 40 / 600
    _, found = tests_of(OFFLINE).drive_accuracy(fast)
    assert found.rate_per_s == 1e12


def test_the_parent_process_is_reported_of_a_test_before_it_begins(tests_of):
    tests = tests_of(OFFLINE)
    tests.drive_accuracy(pace_of())
    assert tests.channel.told[0] == ("accuracy", None)


def test_only_the_performance_test_is_metered(tests_of):
    section, tests = Section(), tests_of(SINGLE_STREAM)
    tests.drive_accuracy(pace_of())
    assert section.entered == 0
    tests.drive_performance(pace_of(fastest_ns=20_000), section)
    assert section.entered == 1


@pytest.mark.parametrize(("scenario", "samples"), [(SINGLE_STREAM, 1), (MULTI_STREAM, 8)])
def test_a_stream_that_ran_out_of_queries_is_made_again_at_the_pace_that_was_seen(
    tests_of, tmp_path, scenario, samples
):
    """LoadGen prepares queries for twice 60 ms of a second each: one. The engine answers in microseconds."""
    section = Section()
    traffic, load, _ = tests_of(scenario).drive_performance(pace_of(fastest_ns=4 * 10**9), section)
    found = detail(tmp_path, Mode.PERFORMANCE)
    assert section.entered >= 2
    assert load.expected_latency_ns < 10**8
    assert found["result_min_duration_met"]
    assert traffic.issued == samples * found["result_query_count"]
    assert traffic.faults == []


class SlowAtFirst(Numbered):
    """The first query of a test takes long, of each further test less long."""

    first_s = 0.05

    def __init__(self):
        self.queries = 0

    def submit(self, samples, reply):
        if not self.queries:
            time.sleep(self.first_s)
        self.queries += 1
        super().submit(samples, reply)

    def reset(self):
        self.queries, self.first_s = 0, self.first_s / 20


def test_a_stream_whose_first_query_was_slow_is_made_again_until_it_was_long_enough(tests_of, tmp_path, monkeypatch):
    engine, section = SlowAtFirst(), Section()
    monkeypatch.setattr(loadgen_tests, "_reset_counts", SlowAtFirst.reset)
    tests_of(SINGLE_STREAM, engine).drive_performance(pace_of(fastest_ns=4 * 10**9), section)
    assert section.entered >= 3
    assert detail(tmp_path, Mode.PERFORMANCE)["result_min_duration_met"]


def test_a_test_that_is_always_too_short_ends_after_the_fifth(tests_of, tmp_path, monkeypatch):
    monkeypatch.setattr(loadgen_tests, "with_observed_speed", lambda pace, *_: pace_of(fastest_ns=pace.fastest_ns - 4))
    section = Section()
    short = tests_of(SINGLE_STREAM, min_duration_ms=2_000)
    traffic, _, _ = short.drive_performance(pace_of(fastest_ns=4 * 10**9), section)
    assert (section.entered, traffic.faults) == (5, [])
    assert not detail(tmp_path, Mode.PERFORMANCE)["result_min_duration_met"]


def test_offline_that_was_too_short_is_made_again_with_more_samples(tests_of, tmp_path):
    section = Section()
    traffic, load, _ = tests_of(OFFLINE, min_duration_ms=400).drive_performance(pace_of(rate_per_s=100.0), section)
    assert section.entered >= 2
    assert load.target_qps > 1.5 * 100
    assert traffic.issued > 40


def test_offline_is_asked_for_more_than_a_guess_may_be_only_where_loadgen_saw_the_rate(tests_of, monkeypatch):
    """The guess says a hundred million; LoadGen sees fewer, and the next test has samples for a fifth more."""
    monkeypatch.setattr(chosen_load, "_GUESSED_MOST_QPS", 100.0)
    section = Section()
    traffic, load, _ = tests_of(OFFLINE, min_duration_ms=400).drive_performance(pace_of(rate_per_s=1e8), section)
    assert section.entered >= 2
    assert 100 < load.target_qps < 1e8
    assert traffic.faults == []


def test_a_hint_of_the_users_is_kept_though_the_test_is_too_short(tests_of, tmp_path):
    section = Section()
    _, load, _ = tests_of(OFFLINE, target_qps=100.0).drive_performance(pace_of(rate_per_s=100.0), section)
    assert (section.entered, load.target_qps) == (1, 100)
    assert not detail(tmp_path, Mode.PERFORMANCE)["result_min_duration_met"]


def test_a_test_with_a_reply_at_fault_is_not_made_again_for_the_second_might_hide_it(tests_of):
    engine, section = Numbered(), Section()
    engine.spoilt = float("nan")
    traffic, _, _ = tests_of(OFFLINE, engine).drive_performance(pace_of(rate_per_s=100.0), section)
    assert section.entered == 1
    assert "NaN" in traffic.faults[0]


def test_a_test_that_was_long_enough_is_made_once(tests_of):
    section = Section()
    tests_of(SINGLE_STREAM).drive_performance(pace_of(fastest_ns=20_000), section)
    assert section.entered == 1


def observed(scenario, pace, **values):
    return with_observed_speed(pace, SimpleNamespace(values=values), scenario)


def test_a_query_of_eight_samples_takes_eight_times_as_long_as_one():
    """4,000 samples a second are 500 queries, of 2 ms each."""
    log = {"result_mean_query_latency_ns": 2_000_000, "generated_samples_per_query": 8}
    found = observed(MULTI_STREAM, pace_of(fastest_ns=10**9), **log)
    assert (found.fastest_ns, found.rate_per_s) == (2_000_000, 4000)


def test_a_pace_that_a_test_did_not_reach_stays():
    log = {"result_mean_latency_ns": 10**9, "generated_samples_per_query": 1}
    assert observed(SINGLE_STREAM, pace_of(), **log) == pace_of()


def test_in_server_the_rate_was_chosen_and_shows_nothing_of_the_pace():
    log = {"result_completed_samples_per_sec": 5000.0, "generated_samples_per_query": 1}
    assert observed(SERVER, pace_of(), **log) == pace_of()
