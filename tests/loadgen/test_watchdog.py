"""When a test is ended from the side, and with which words; on a clock that only the tests move."""

from types import SimpleNamespace

import pytest

from mlbench.loadgen.watchdog import GRACE_S, Watchdog

STALL_S = 100.0
IDLE_S = 1000.0


class Subject:
    """A test that stands still unless it is told to move."""

    def __init__(self, issued=10, answered=10, call=""):
        self.moved = 0
        self.given = []
        self.aborted = []
        self.faults = []
        self.ledger = SimpleNamespace(issued=issued, answered=lambda: answered, faults=lambda: self.faults)
        self.completer = SimpleNamespace(failure="")
        self.sut = SimpleNamespace(abort=self.aborted.append, engine_call=lambda: call, lost="")
        self.qsl = SimpleNamespace(is_busy=False)

    def movement(self):
        return (self.moved,)

    def answered(self, count, /):
        self.given.append(count)

    def stuck(self, reason, /):
        raise AssertionError(reason)


@pytest.fixture
def watch(monkeypatch):
    """Return a function from a subject to one that returns what the watchdog says after so many seconds more."""
    monkeypatch.setattr("mlbench.loadgen.watchdog.time", SimpleNamespace(monotonic=lambda: 0.0))

    def watch(subject, idle_s=0.0):
        watchdog = Watchdog(subject, stall_timeout_s=STALL_S, idle_s=idle_s, callbacks=subject)
        now = [0.0]

        def look_after(seconds):
            now[0] += seconds
            return watchdog._look(now[0])

        assert not look_after(0)
        return look_after

    return watch


def test_time_in_which_the_watchdog_did_not_run_is_no_silence_of_the_engine(monkeypatch):
    monkeypatch.setattr("mlbench.loadgen.watchdog.time", SimpleNamespace(monotonic=lambda: 0.0))
    subject = Subject(answered=9)
    watchdog = Watchdog(subject, stall_timeout_s=STALL_S, idle_s=0.0, callbacks=subject)
    assert not watchdog._look(0.0)
    watchdog._forgive(STALL_S, STALL_S + 1)
    watchdog._look(STALL_S + 1)
    assert not subject.aborted
    watchdog._look(2 * STALL_S + 1)
    assert subject.aborted


def test_a_test_in_which_all_is_answered_is_not_over_until_loadgen_has_returned(watch):
    look_after = watch(Subject())
    assert not look_after(STALL_S + GRACE_S)
    assert look_after(1) == "LoadGen did not return within 111 s of the last of 10 answers: no fault"


def test_an_engine_that_keeps_loadgens_thread_after_its_last_answer_is_named(watch):
    look_after = watch(Subject(call="flush"))
    assert not look_after(STALL_S + GRACE_S)
    assert look_after(1) == "the engine does not return from flush: every sample was answered"


def test_loadgen_may_wait_for_the_next_arrival(watch):
    look_after = watch(Subject(), idle_s=IDLE_S)
    assert not look_after(STALL_S + GRACE_S + IDLE_S)
    assert look_after(1).startswith("LoadGen did not return")


def test_an_engine_may_not_keep_loadgens_thread_while_no_sample_arrives(watch):
    look_after = watch(Subject(call="submit"), idle_s=IDLE_S)
    assert look_after(STALL_S + GRACE_S + 1) == "the engine does not return from submit: every sample was answered"


def test_what_moves_is_not_over(watch):
    subject = Subject()
    look_after = watch(subject)
    for _ in range(10):
        subject.moved += 1
        assert not look_after(STALL_S)


def test_a_dataset_that_loads_samples_is_not_the_engines_fault_and_gives_no_sign_of_life(watch):
    subject = Subject()
    look_after = watch(subject)
    subject.qsl.is_busy, subject.given = True, []
    assert not look_after(50 * STALL_S)
    assert subject.given == []
    subject.qsl.is_busy = False
    assert not look_after(STALL_S)
    assert [(each.issued, each.answered) for each in subject.given] == [(10, 10)]


def test_samples_that_wait_too_long_are_given_up_and_then_loadgen_has_a_grace(watch):
    subject = Subject(answered=9)
    look_after = watch(subject)
    assert not look_after(STALL_S)
    assert subject.aborted == []
    assert not look_after(1)
    assert subject.aborted == ["no reply within 101 s"]
    subject.faults = ["sample 7: failed: no reply within 101 s"]
    assert not look_after(GRACE_S)
    assert look_after(1).endswith("sample 7: failed: no reply within 101 s")
    assert len(subject.aborted) == 1


def test_loadgen_may_issue_to_the_end_of_its_schedule_after_samples_were_given_up(watch):
    subject = Subject(answered=9)
    look_after = watch(subject)
    look_after(STALL_S + 1)
    for _ in range(50):
        subject.moved += 1
        assert not look_after(GRACE_S)


def test_an_engine_that_holds_a_sample_and_loadgens_thread_is_named_with_the_sample(watch):
    subject = Subject(answered=9, call="submit")
    look_after = watch(subject)
    look_after(STALL_S + 1)
    subject.faults = ["sample 7: failed: no reply within 101 s"]
    assert look_after(GRACE_S + 1) == "the engine does not return from submit: sample 7: failed: no reply within 101 s"


def test_replies_that_no_longer_reach_loadgen_end_a_test_at_once(watch):
    subject = Subject()
    look_after = watch(subject)
    subject.completer.failure = "its thread has ended"
    assert look_after(0.5) == "replies do not reach LoadGen: its thread has ended"


def test_a_test_is_timed_from_its_first_sample_on(watch):
    subject = Subject(issued=0, answered=0)
    look_after = watch(subject)
    look_after(30)
    subject.ledger.issued = 10
    look_after(1)
    look_after(5)
    assert [each.elapsed_s for each in subject.given] == [0, 0, 0, 5]
