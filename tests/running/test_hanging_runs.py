"""Whole runs of engines that do not come to an end: the run does, and names what it waited for."""

import re

import pytest

pytestmark = pytest.mark.slow


def test_an_engine_that_does_not_return_is_a_hang_and_the_sample_is_named(faulty_run):
    record, _ = faulty_run("hang")
    assert record.failure.kind == "hang"
    assert "sample 7: failed: no reply within" in record.failure.message
    assert "in hang" in record.failure.log_tail, "the stack of every thread is in the log"


@pytest.mark.thorough("engines")
@pytest.mark.parametrize(
    ("backend", "scenario", "call"),
    [("dwell", "SingleStream", "submit"), ("dwell", "Server", "submit"), ("never_flushing", "Offline", "flush")],
)
def test_an_engine_that_answers_all_and_does_not_return_is_a_hang(faulty_run, backend, scenario, call):
    record, printed = faulty_run(backend, scenario, **{"load.stall_timeout_s": 2, "load.target_qps": 200})
    assert record.failure.kind == "hang"
    assert record.failure.message == f"the engine does not return from {call}: every sample was answered"
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("backend", "stage"),
    [
        pytest.param("hold_the_interpreter", "performance", marks=pytest.mark.thorough("engines")),
        ("never_closing", "close the engine"),
    ],
)
def test_what_outlasts_the_stage_timeout_is_a_hang_in_the_stage_where_it_happened(faulty_run, backend, stage):
    record, _ = faulty_run(backend, **{"load.stage_timeout_s": 8, "load.stall_timeout_s": 2})
    assert (record.failure.kind, record.failure.stage) == ("hang", stage)
    assert record.failure.message.startswith("no sign of life for ")


def test_a_warm_up_that_waits_is_a_hang_long_before_one_that_works(faulty_run):
    record, _ = faulty_run("never_ready", **{"load.stall_timeout_s": 1})
    assert (record.failure.kind, record.failure.stage) == ("hang", "warm-up")
    assert 5 <= int(re.match(r"no sign of life for (\d+)", record.failure.message)[1]) < 20


def test_a_thread_that_outlives_its_engine_neither_holds_up_nor_costs_a_run(faulty_run):
    record, _ = faulty_run("never_leaving", exit_code=None)
    assert (record.status, record.failure) == ("completed", None)
