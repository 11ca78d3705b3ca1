"""The rate of a Server run that was given none: under real LoadGen, over engines of known speed."""

import queue
import shutil
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from measured_parts import MODEL, Numbers

from mlbench import Engine, EnginePlan, Profile
from mlbench.contracts.scenario import LoadSettings
from mlbench.execution.speed_estimate import SpeedEstimate
from mlbench.loadgen.logs import read_detail
from mlbench.loadgen.scenarios import OFFLINE, SERVER
from mlbench.measurement import server_rate
from mlbench.measurement.loadgen_tests import LoadGenTests
from mlbench.measurement.running_engine import RunningEngine
from mlbench.measurement.server_rate import RateBracket, hold_rate, raise_rate
from mlbench.rules.official import official_rules
from mlbench.rules.tiers import Tier, limits_of

DATA = Path(__file__).parents[1] / "data" / "loadgen"


class AtOnce(Engine):
    """Answers at once, and counts."""

    answer = 0.0
    answered = 0

    def submit(self, samples, reply):
        self.answered += len(samples)
        reply.complete(samples, np.full((len(samples), 1), self.answer, np.float32))


SPEC = SimpleNamespace(network=None, audit=None)


def search_of(engine, folder, *, limit_ms=60_000, scenario=SERVER, **load):
    workload = SimpleNamespace(name="one", rules="resnet50", mini_server_latency_ms=limit_ms)
    asked = {"scenario": scenario, "load": LoadSettings(**load), "plan": EnginePlan(), "spec": SPEC}
    job = SimpleNamespace(**asked, folder=folder, workload=workload, rules=official_rules("resnet50"))
    limits = limits_of(job.rules, workload, Numbers(), SERVER, tier=Tier.SMOKE, profile=Profile.MINI)
    ready = RunningEngine(engine=engine, dataset=Numbers(), runtime=dict, peak_memory_bytes=lambda: 0, vary=None)
    channel = SimpleNamespace(progress=lambda stage, **facts: None, stuck=lambda reason: None)
    return RateBracket(job, MODEL, limits, ready, channel)


def pace_of(rate_per_s, single_per_s):
    single_ns = round(1e9 / single_per_s)
    return SpeedEstimate(latency_ns=single_ns, fastest_ns=single_ns, rate_per_s=rate_per_s)


LOAD = LoadSettings(min_duration_ms=2000, min_query_count=838, performance_sample_count=40)


@pytest.mark.thorough("searches", but=["of many at once"])
@pytest.mark.parametrize(
    ("single_per_s", "rate_per_s"), [(600, 600), (40, 600)], ids=["of many at once", "many times one at a time"]
)
def test_three_fifths_of_the_speed_of_many_at_once_are_kept_where_they_are_held(tmp_path, single_per_s, rate_per_s):
    """1,000 samples/s at once; from 160/s, four times one at a time, 400 and 600 are probed."""
    assert search_of(AtOnce(), tmp_path).find_rate(pace_of(1000, single_per_s), LOAD) == pytest.approx(rate_per_s)
    logged = read_detail(tmp_path / "rate" / "mlperf_log_detail.txt").values
    assert logged["requested_server_target_qps"] == pytest.approx(rate_per_s)
    seconds = logged["result_query_count"] / rate_per_s
    assert min(abs(seconds - wanted) for wanted in (1, 2)) < 0.01, "a second of it, or two after a busy moment"


class Delayed(AtOnce):
    """Answers as many as come, each so long after it came."""

    delay_s = 0.1

    def __init__(self):
        self.waiting = queue.SimpleQueue()
        threading.Thread(target=self.work, daemon=True).start()

    def submit(self, samples, reply):
        self.waiting.put((time.monotonic() + self.delay_s, samples, reply))

    def work(self):
        while True:
            due_s, samples, reply = self.waiting.get()
            time.sleep(max(0.0, due_s - time.monotonic()))
            reply.complete(samples, np.zeros((len(samples), 1), np.float32))


def test_a_rate_that_is_answered_late_is_not_held_though_all_are_answered(tmp_path):
    """A tenth of a second each, where a probe is held to half of 150 ms; the least is a quarter of one at a time's."""
    found = search_of(Delayed(), tmp_path, limit_ms=150).find_rate(pace_of(1000, 600), LOAD)
    assert found == pytest.approx(150)


class OneAtATime(AtOnce):
    """Takes 10 ms for each sample, on a thread of its own: 100 a second, whatever a trial said."""

    def __init__(self, takes_s=0.01):
        self.takes_s, self.waiting = takes_s, []
        self.arrived = threading.Condition()
        threading.Thread(target=self.work, daemon=True).start()

    def submit(self, samples, reply):
        with self.arrived:
            self.waiting.append((samples, reply))
            self.arrived.notify()

    def work(self):
        while True:
            with self.arrived:
                self.arrived.wait_for(lambda: self.waiting)
                samples, reply = self.waiting.pop(0)
            ended_s = time.perf_counter() + self.takes_s
            while time.perf_counter() < ended_s:
                time.sleep(0.001)
            reply.complete(samples, np.zeros((len(samples), 1), np.float32))


@pytest.mark.slow
def test_a_rate_that_a_trial_got_wrong_is_not_sent(tmp_path):
    """A thousand at once, says the trial; the engine answers a hundred."""
    found = search_of(OneAtATime(), tmp_path, limit_ms=100).find_rate(pace_of(1000, 100), LOAD)
    assert 25 <= found < 100


@pytest.mark.slow
def test_a_rate_above_what_the_engine_answers_is_not_sent_though_a_second_of_it_meets_the_limit(tmp_path):
    """115 a second to an engine that answers a hundred: a tenth of a second of waiting after one, ever more later."""
    found = search_of(OneAtATime(), tmp_path, limit_ms=1500).find_rate(pace_of(115 / 0.6, 115 / 0.6), LOAD)
    assert found == pytest.approx(69)


@pytest.mark.parametrize(
    ("latencies_ns", "grows"),
    [
        (range(90), True),
        ([*range(10, 40), *[40] * 60], False),
        ([10] * 90, False),
        ([*[10] * 70, *[500] * 14, *[10] * 6], False),
        ([1, 9], False),
    ],
    ids=["ever more", "a queue that fills", "the same", "a pause", "too few"],
)
def test_latencies_that_grow_are_told_from_a_pause(latencies_ns, grows):
    assert server_rate.is_growing(latencies_ns) is grows


class HoldsBelow:
    """Holds rates up to one, and notes which were tried."""

    def __init__(self, most_per_s):
        self.most_per_s, self.tried = most_per_s, []

    def is_held(self, rate_per_s):
        self.tried.append(rate_per_s)
        return rate_per_s <= self.most_per_s


@pytest.mark.parametrize(
    ("held_below", "expected", "tries"),
    [(100, 100, 1), (50, 36, 3), (2, 10, 5)],
    ids=["once", "thrice", "never"],
)
def test_ever_lower_rates_are_tried_down_to_one_that_no_queue_explains(held_below, expected, tries):
    """From 100: 60, 36, 21.6, 12.96, and then the least."""
    engine = HoldsBelow(held_below)
    assert hold_rate(100, 10, engine.is_held) == pytest.approx(expected)
    assert len(engine.tried) == tries


@pytest.mark.parametrize(
    ("held_below", "expected", "tried"),
    [(9999, 1000, [250, 625, 1000]), (700, 625, [250, 625, 1000]), (0, 100, [250])],
    ids=["all", "some", "none"],
)
def test_ever_higher_rates_are_tried_up_to_the_highest_or_one_that_is_not_held(held_below, expected, tried):
    engine = HoldsBelow(held_below)
    assert raise_rate(100, 1000, engine.is_held) == expected
    assert engine.tried == tried


def test_a_rate_is_not_raised_beyond_what_the_engine_answers(tmp_path):
    """Four times 20 a second are held, and two and a half times that not: the engine answers 166."""
    load = replace(LOAD, min_query_count=100)
    found = search_of(OneAtATime(takes_s=0.006), tmp_path, limit_ms=1000).find_rate(pace_of(1000, 20), load)
    assert found == pytest.approx(80)


def test_a_machine_that_pauses_does_not_make_a_run_of_a_quarter_of_an_hour(tmp_path, monkeypatch):
    """100 a second one at a time, and each probe meets a pause: 838 queries take 34 s at a quarter of that."""
    monkeypatch.setattr(RateBracket, "_is_held", lambda search, load: False)
    monkeypatch.setattr(server_rate, "repeat_trial", lambda ready, job, model, pace: pace)
    assert search_of(AtOnce(), tmp_path).find_rate(pace_of(1000, 100), LOAD) == pytest.approx(25)


def test_a_slow_trial_is_repeated_before_a_run_is_made_long_by_it(tmp_path, monkeypatch):
    """At 6 a second 838 queries take 140 s, and the tier asks for two."""
    monkeypatch.setattr(server_rate, "repeat_trial", lambda *given: pace_of(1000, 1000))
    assert search_of(AtOnce(), tmp_path).find_rate(pace_of(10, 10), LOAD) == pytest.approx(600)


@pytest.mark.parametrize(
    ("single_per_s", "is_saturated", "again"),
    [(2, False, 0), (1, False, 1), (1, True, 0)],
    ids=["far from four times one at a time", "bound by one at a time", "saturated"],
)
def test_a_rate_that_follows_from_a_whole_test_alone_is_not_tried_again(
    tmp_path, monkeypatch, single_per_s, is_saturated, again
):
    """Ten at once, of which four fifths are eight a second, since a run of minutes follows either way.

    Bound by four times one at a time it is four, and six where that is held: three fifths.
    """
    trials = []

    def repeat_trial(ready, job, model, pace):
        trials.append(pace)
        return pace

    monkeypatch.setattr(server_rate, "repeat_trial", repeat_trial)
    monkeypatch.setattr(RateBracket, "_is_held", lambda search, load: True)
    pace = pace_of(1, single_per_s).with_seen(10, is_saturated=is_saturated)
    found = search_of(AtOnce(), tmp_path).find_rate(pace, LOAD)
    assert found == pytest.approx(6 if again else 8)
    assert len(trials) == again


def test_a_repeated_trial_in_a_busy_moment_lowers_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(server_rate, "repeat_trial", lambda *given: pace_of(1, 1))
    assert search_of(AtOnce(), tmp_path).find_rate(pace_of(100, 100), LOAD) == pytest.approx(60)


def test_replies_that_are_not_sound_are_left_to_the_test(tmp_path):
    engine = AtOnce()
    engine.answer = np.nan
    assert search_of(engine, tmp_path).find_rate(pace_of(1000, 1000), LOAD) == pytest.approx(600)


@pytest.mark.parametrize(
    ("load", "scenario", "is_needed"),
    [
        ({}, SERVER, True),
        ({"target_qps": 7.0}, SERVER, False),
        ({"server_load": 0.5}, SERVER, False),
        ({}, OFFLINE, False),
    ],
    ids=["nothing said", "a rate", "a share", "no rate to send"],
)
def test_a_rate_is_looked_for_where_no_one_said_one(tmp_path, load, scenario, is_needed):
    assert search_of(AtOnce(), tmp_path, scenario=scenario, **load).is_needed is is_needed


@pytest.mark.parametrize(("qps", "queries"), [(16, 64), (2, 20), (0.1, 8), (700, 700), (1e6, 20_000)])
def test_a_probe_lasts_a_second_and_longer_where_that_is_too_few_queries(qps, queries):
    """64 queries at 16 a second take 4 s; at 2 a second there is time for 20 of them, and 8 are the fewest."""
    probe = server_rate._probe_of(LoadSettings(min_duration_ms=2000, target_qps=qps))
    assert probe.min_query_count == queries


def test_a_long_run_has_longer_probes():
    assert server_rate._probe_of(LoadSettings(min_duration_ms=600_000, target_qps=100)).min_query_count == 600


class LateAtFirst(Delayed):
    """Answers its first samples each a second after it came, and all others at once."""

    delay_s = 1.0

    def __init__(self, slow):
        super().__init__()
        self.slow = slow

    def submit(self, samples, reply):
        self.slow -= len(samples)
        (Delayed if self.slow >= 0 else AtOnce).submit(self, samples, reply)


def performance_test_of(engine, folder, **load):
    """Drive a performance test at a rate that a probe held, of 600/s, whose limit is half a second.

    Returns:
        What it sent, and its log.
    """
    search = search_of(engine, folder, limit_ms=500, **load)
    tests = LoadGenTests(search.job, MODEL, Numbers(), search.limits, search.channel, search.ready)
    _, load, _ = tests.drive_performance(pace_of(1000, 200), nullcontext())
    return load, read_detail(folder / "performance" / "mlperf_log_detail.txt").values


@pytest.fixture
def every_probe_holds(monkeypatch):
    monkeypatch.setattr(RateBracket, "_is_held", lambda search, load: True)


SHORT = {"min_duration_ms": 300, "min_query_count": 459, "performance_sample_count": 40}


@pytest.mark.thorough("searches", but=["late once", "held"])
@pytest.mark.usefixtures("every_probe_holds")
@pytest.mark.parametrize(
    ("slow", "rate_per_s", "valid"),
    [(0, 600, "VALID"), (100, 360, "VALID"), (10**6, 216, "INVALID")],
    ids=["held", "late once", "late every time"],
)
def test_a_test_at_a_rate_that_only_a_probe_held_is_made_again_at_a_lower_one(tmp_path, slow, rate_per_s, valid):
    """From 600/s: 360, then 216; a fourth test is not made. The logs of the one before are kept as the last probe's."""
    load, logged = performance_test_of(LateAtFirst(slow), tmp_path, **SHORT)
    assert (load.target_qps, logged["result_validity"]) == (pytest.approx(rate_per_s), valid)
    assert logged["requested_server_target_qps"] == pytest.approx(rate_per_s)
    kept = tmp_path / "rate" / "mlperf_log_detail.txt"
    if slow:
        before = read_detail(kept).values
        assert before["requested_server_target_qps"] == pytest.approx(rate_per_s / 0.6)
        assert before["result_validity"] == "INVALID"
    else:
        assert not kept.exists()


@pytest.mark.usefixtures("every_probe_holds")
def test_a_rate_that_was_given_is_tested_once(tmp_path):
    load, logged = performance_test_of(LateAtFirst(100), tmp_path, target_qps=500.0, **SHORT)
    assert (load.target_qps, logged["result_validity"]) == (500, "INVALID")


@pytest.mark.parametrize(
    ("log", "rate_per_s"),
    [("server", None), ("server_overloaded", 360), ("server_tokens", None), ("server_too_few", None)],
)
def test_a_lower_rate_follows_from_lateness_alone(tmp_path, log, rate_per_s):
    """A test of too few queries cannot become valid, whatever its rate."""
    (tmp_path / "performance").mkdir()
    shutil.copy(DATA / f"{log}.detail.txt", tmp_path / "performance" / "mlperf_log_detail.txt")
    load = replace(LOAD, target_qps=600.0)
    lower = search_of(AtOnce(), tmp_path).lower_after(load, pace_of(1000, 200), 1)
    assert (lower and lower.target_qps) == (rate_per_s and pytest.approx(rate_per_s))


def test_no_rate_is_lowered_below_what_a_queue_explains(tmp_path):
    """200 a second one at a time: at a quarter of that, late answers are caused by a pause."""
    (tmp_path / "performance").mkdir()
    shutil.copy(DATA / "server_overloaded.detail.txt", tmp_path / "performance" / "mlperf_log_detail.txt")
    assert search_of(AtOnce(), tmp_path).lower_after(replace(LOAD, target_qps=50.0), pace_of(1000, 200), 1) is None
