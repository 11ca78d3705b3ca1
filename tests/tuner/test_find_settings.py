"""What the trials of a search of settings count for."""

import math
from types import SimpleNamespace

import pytest

from mlbench import InvalidRunError, UsageError
from mlbench.tuner.find_settings import find_settings
from mlbench.tuner.search.settings_search import Knob, KnobValues
from mlbench.tuner.trial_maker import TrialMaker

START = KnobValues({"execution.workers": 1})


def result(value, *, higher_is_better=True):
    return {"value": value, "unit": "samples/s", "higher_is_better": higher_is_better, "latency_ns": {}, "counts": {}}


def verdict(*, is_valid=True, is_accurate=True):
    return {"rules": (), "not_applied": {}, "is_valid": is_valid, "is_accurate": is_accurate, "is_conformant": False}


class Plan(SimpleNamespace):
    """A plan with one knob, whose runs are known by their settings."""

    def __init__(self, *values):
        super().__init__(knobs=(Knob("execution.workers", values),), start=START)

    def run_of(self, trial, plugins):
        return trial

    def seconds(self, trial):
        return 1.0


@pytest.fixture
def search(a_run):
    def search(record_of, *values, budget_s=math.inf):
        def make(trial, what, seconds):
            return record_of(trial, a_run)

        return find_settings(Plan(*values), None, TrialMaker(make, budget_s, fresh=True), lambda tried: None)

    return search


def test_a_latency_is_the_better_the_lower(search):
    def record(trial, a_run):
        return a_run(result=result(10.0 / trial.settings["execution.workers"], higher_is_better=False), accuracy=None)

    assert search(record, 1, 2).best.settings == {"execution.workers": 2}


def test_settings_with_wrong_answers_do_not_win_however_fast(search):
    def record(trial, a_run):
        workers = trial.settings["execution.workers"]
        return a_run(result=result(10.0 * workers), verdict=verdict(is_accurate=workers == 1))

    outcome = search(record, 1, 2)
    assert outcome.best.settings == START
    assert [each.reason for each in outcome.tried if each.reason] == ["misses the accuracy target"]


def test_an_invalid_full_run_does_not_count(search):
    def record(trial, a_run):
        return a_run(result=result(10.0), verdict=verdict(is_valid=not trial.is_full))

    outcome = search(record, 1, 2)
    assert outcome.best is None
    assert {each.reason for each in outcome.tried if each.trial.is_full} == {"INVALID"}


def test_settings_that_an_engine_refuses_cost_no_search(search):
    def record(trial, a_run):
        if trial.settings["execution.workers"] == 2:
            raise UsageError("execution.workers is 2.")
        return a_run(result=result(10.0), verdict=verdict())

    outcome = search(record, 1, 2)
    assert outcome.best.settings == START
    assert [each.reason for each in outcome.tried if each.record is None] == ["execution.workers is 2."]
    assert outcome.made == 3


def test_todays_settings_must_run(search, a_failure):
    with pytest.raises(UsageError, match=r"workers is 1"):
        search(lambda trial, a_run: (_ for _ in ()).throw(UsageError("workers is 1.")), 1, 2)
    with pytest.raises(InvalidRunError, match="crash during warm-up"):
        search(lambda trial, a_run: a_failure, 1, 2)


def test_no_run_is_begun_for_which_there_is_no_time(search):
    made = []

    def record(trial, a_run):
        made.append(trial)
        return a_run(result=result(10.0), verdict=verdict(), duration_ns=2_000_000_000)

    outcome = search(record, 1, 2, budget_s=12.5)
    assert (len(made), outcome.best, outcome.finalists) == (1, None, ())
