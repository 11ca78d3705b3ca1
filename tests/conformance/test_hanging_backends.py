"""Backends that hold the process or end it: `mlbench check` goes on, and says in which call it happened."""

import re
import threading

import pytest

from mlbench.conformance.engine_checks import ENGINE_CHECKS
from mlbench.conformance.hang_guard import HangGuard
from mlbench.conformance.isolated import CheckRequest, _Examination, _Outcome, examine
from mlbench.wire.progress import ProgressMessage

BY_LOADGEN = "hang: the engine does not return from "
"""What the watch over LoadGen says, with the call, where it is the first to see it, as on a busy machine."""

KIT = pytest.mark.thorough("kit")
HANGS = [
    ("hanging", "answers_after_flush", "in Uttering.submit (right.py:"),
    pytest.param("holding-submit", "answers_one_at_a_time", "in Uttering.submit (right.py:", marks=KIT),
    pytest.param("holding-submit", "passes_loadgen_single_stream", "in Uttering.submit (right.py:", marks=KIT),
    pytest.param("holding-flush", "stops_without_work", "in HoldingFlush.flush (processes.py:", marks=KIT),
    pytest.param("holding-flush", "passes_loadgen_offline", "in HoldingFlush.flush (processes.py:", marks=KIT),
    ("holding-start", "stops_without_work", "in HoldingStart.__enter__ (processes.py:"),
    pytest.param("holding-warm-up", "stops_without_work", "in HoldingWarmUp.warm_up (processes.py:", marks=KIT),
    pytest.param("holding-exit", "stops_without_work", "in HoldingExit.__exit__ (processes.py:", marks=KIT),
    pytest.param(
        "holding-statistics", "reports_facts_as_json", "in HoldingStatistics.statistics (processes.py:", marks=KIT
    ),
    pytest.param("decoding-for-ever", "counts_the_tokens_it_gives", "in Speaker.submit (language.py:", marks=KIT),
    pytest.param("decoding-for-ever", "passes_loadgen_with_tokens", "in Speaker.submit (language.py:", marks=KIT),
    pytest.param("dwelling-on-an-answer", "passes_loadgen_with_tokens", "in Dwelling.submit (language.py:", marks=KIT),
    pytest.param("flushing-for-ever", "passes_loadgen_with_tokens", "in Flushing.flush (language.py:", marks=KIT),
    ("holding-the-interpreter", "answers_after_flush", "no sign of life for"),
    ("stopping", "answers_after_flush", "no sign of life for"),
]


@pytest.mark.usefixtures("broken_plugin")
@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("crashing", "crash: the process was ended by SIGSEGV"),
        ("leaving", "exit: the process left with status 0 before it was done"),
    ],
)
def test_a_backend_that_ends_the_process_fails_the_check_and_the_next_is_made(tmp_path, monkeypatch, backend, reason):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    only = ["answers_after_flush", "has_a_name_and_options"]
    found = examine(CheckRequest(backend=backend), tmp_path / "log", lambda finding: None, only=only)
    reasons = {finding.check: finding.reason for finding in found}
    assert reasons["answers_after_flush"].startswith(reason)
    assert reasons["has_a_name_and_options"] == ""


@pytest.mark.usefixtures("broken_plugin")
@pytest.mark.parametrize(
    ("backend", "check", "words"),
    HANGS,
    ids=[f"{case[0]}-{case[1]}" for case in (getattr(each, "values", each) for each in HANGS)],
)
def test_a_backend_that_never_returns_fails_the_check_and_the_call_is_named(tmp_path, hurried, backend, check, words):
    following = "has_a_name_and_options"
    request = CheckRequest(backend=backend, timeout_s=hurried)
    found = examine(request, tmp_path / "log", lambda finding: None, only=[check, following])
    reasons = {finding.check: finding.reason for finding in found}
    call = re.search(r"\.(\w+) \(", words)
    by_loadgen = call is not None and reasons[check].startswith(BY_LOADGEN + call[1])
    assert by_loadgen or (reasons[check].startswith("hang: no sign of life for") and words in reasons[check])
    assert reasons[following] == ""


@pytest.mark.usefixtures("broken_plugin")
def test_a_backend_that_holds_up_the_end_of_python_does_not_hold_up_the_kit(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    (found,) = examine(
        CheckRequest(backend="leaving-a-thread", timeout_s=4.0),
        tmp_path / "log",
        lambda finding: None,
        only=["leaves_nothing_running"],
    )
    assert "the threads left-behind" in found.reason


@pytest.mark.thorough("kit")
@pytest.mark.usefixtures("broken_plugin")
def test_an_engine_that_goes_on_in_two_processes_is_caught_and_both_end(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    (found,) = examine(
        CheckRequest(backend="going-on-twice", timeout_s=4.0),
        tmp_path / "log",
        lambda finding: None,
        only=["leaves_nothing_running"],
    )
    assert re.search("the processes .* run on", found.reason)


@pytest.mark.thorough("kit", but=["refusing-to-warm-up-leaves_nothing_running-8 GB are not enough."])
@pytest.mark.usefixtures("broken_plugin")
@pytest.mark.parametrize(
    ("backend", "check", "reason"),
    [
        ("refusing-to-start", "answers_one_at_a_time", "shard 3 of 5 is gone."),
        ("refusing-to-warm-up", "leaves_nothing_running", "8 GB are not enough."),
    ],
)
def test_an_engine_that_refuses_with_an_error_of_ours_fails_its_checks_and_the_others_are_made(
    tmp_path, monkeypatch, backend, check, reason
):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    only = [check, "has_a_name_and_options"]
    found = examine(CheckRequest(backend=backend), tmp_path / "log", lambda finding: None, only=only)
    assert {finding.check: finding.reason for finding in found} == {check: reason, "has_a_name_and_options": ""}


@pytest.mark.thorough("kit")
@pytest.mark.usefixtures("broken_plugin")
def test_a_backend_that_floods_the_log_of_its_checks_leaves_a_short_one(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("mlbench.execution.processes.bounded_log.MOST_BYTES", 2**20)
    monkeypatch.setattr("mlbench.execution.processes.bounded_log.KEPT_BYTES", 2**19)
    log, only = tmp_path / "log", ["answers_one_at_a_time"]
    (found,) = examine(CheckRequest(backend="flooding"), log, lambda finding: None, only=only)
    assert found.reason == ""
    assert log.stat().st_size < 2**20
    assert b"MiB are left out here" in log.read_bytes()


@pytest.fixture
def let_go():
    event = threading.Event()
    yield event
    event.set()


def watched(function, on_hang):
    """Run a function under a guard without patience, on a thread of its own."""

    def run():
        with HangGuard(0.05, on_hang):
            function()

    threading.Thread(target=run, daemon=True).start()


def test_a_guard_names_the_call_that_the_watched_thread_is_in(let_go):
    said, heard = [], threading.Event()

    def backends_own():
        let_go.wait()

    watched(backends_own, lambda reason: (said.append(reason), heard.set()))
    assert heard.wait(60)
    assert re.match(r"no sign of life for \d+ s, in .*\(\w+.py:\d+\)", said[0])


def test_a_guard_is_quiet_while_there_is_progress():
    said = []
    with HangGuard(1000.0, said.append) as guard:
        guard.progress()
    assert said == []


def test_a_check_that_ended_twice_has_one_finding():
    """A hang is reported while the check, which was slow, comes to its end after all."""
    noted = []
    examination = _Examination(ENGINE_CHECKS[:2], noted.append)
    first = ENGINE_CHECKS[0].__name__
    for outcome in (None, _Outcome(reason="hang: slow"), _Outcome()):
        examination.on_message(ProgressMessage.of(first, outcome))
    assert [(finding.check, finding.reason) for finding in noted] == [(first, "hang: slow")]
    assert examination.remaining == [ENGINE_CHECKS[1].__name__]
