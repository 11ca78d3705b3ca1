"""What is reported to LoadGen, and in how many calls."""

import threading

import numpy as np
import pytest

from mlbench.loadgen import completer as module
from mlbench.loadgen.completer import Completer
from mlbench.loadgen.ledger import Closed


@pytest.fixture
def told(monkeypatch):
    """Return the calls of LoadGen: what was called, and the ids, sizes and token counts of its responses."""
    calls = []

    def response(id_, address, size, tokens=None):
        return (id_, size, tokens)

    monkeypatch.setattr(module, "QuerySampleResponse", response)
    monkeypatch.setattr(module, "QuerySamplesComplete", lambda responses: calls.append(("answers", responses)))
    monkeypatch.setattr(module, "FirstTokenComplete", lambda responses: calls.append(("first tokens", responses)))
    return calls


def from_another_thread(speak):
    thread = threading.Thread(target=speak)
    thread.start()
    thread.join()


def samples(*ids):
    return Closed(ids, tuple(10 * id_ for id_ in ids))


class Refused(list):
    """The dataset indices and reasons of replies that LoadGen refused."""

    def __call__(self, indices, reason):
        self.append((list(indices), reason))


@pytest.fixture
def refused():
    return Refused()


def speak(completer):
    completer.complete(samples(1, 2), np.zeros((2, 3), np.float32))
    completer.complete(samples(3), [np.zeros(5, np.int64)], [5])
    completer.first_token(samples(4), np.zeros((1, 1), np.int32))
    completer.complete(samples(5), np.zeros((1, 3), np.float32))
    completer.give_up(samples(6))


def test_replies_that_wait_for_each_other_go_in_one_call_and_in_their_order(told, refused):
    completer = Completer(refused, gather_s=0.001)
    from_another_thread(lambda: speak(completer))
    with completer:
        pass
    assert told == [
        ("answers", [(1, 12, None), (2, 12, None), (3, 40, 5)]),
        ("first tokens", [(4, 4, None)]),
        ("answers", [(5, 12, None)]),
        ("answers", [(6, 0, None)]),
    ]


def test_replies_that_are_timed_go_one_by_one(told, refused):
    completer = Completer(refused)
    from_another_thread(lambda: speak(completer))
    with completer:
        pass
    assert [[each[0] for each in responses] for _, responses in told] == [[1, 2], [3], [4], [5], [6]]


@pytest.mark.parametrize("has_counts", [False, True])
def test_replies_to_many_samples_go_in_parts_each_with_its_own_data(told, refused, monkeypatch, has_counts):
    monkeypatch.setattr(module, "_MOST_AT_A_TIME", 4)
    monkeypatch.setattr(module, "QuerySampleResponse", lambda id_, address, size, tokens=None: (id_, address, tokens))
    completer = Completer(refused)
    outputs = np.arange(10, dtype=np.float32)[:, np.newaxis]
    completer.complete(samples(*range(10)), outputs, list(range(20, 30)) if has_counts else None)
    assert [len(responses) for _, responses in told] == [4, 4, 2]
    heard = [response for _, responses in told for response in responses]
    first = outputs.ctypes.data
    assert heard == [(id_, first + 4 * id_, 20 + id_ if has_counts else None) for id_ in range(10)]


def test_a_reply_on_the_thread_that_issues_is_reported_at_once(told, refused):
    completer = Completer(refused, gather_s=0.001)
    completer.complete(samples(1), np.zeros((1, 3), np.float32))
    assert told == [("answers", [(1, 12, None)])]


def test_a_reply_on_a_thread_that_outlasts_the_test_is_reported_by_that_thread(told, refused, monkeypatch):
    on = []
    answer = module.QuerySamplesComplete
    monkeypatch.setattr(module, "QuerySamplesComplete", lambda said: (on.append(threading.get_ident()), answer(said)))
    given, asked = threading.Event(), threading.Event()

    def give():
        asked.wait()
        speak(completer)
        given.set()

    thread = threading.Thread(target=give)
    thread.start()
    with Completer(refused, lasting=[thread.ident]) as completer:
        asked.set()
        given.wait()
        assert [[each[0] for each in responses] for _, responses in told] == [[1, 2], [3], [4], [5], [6]]
        assert set(on) == {thread.ident}
    thread.join()


def test_replies_that_are_gathered_wait_for_each_other_on_a_thread_that_outlasts_the_test_too(told, refused):
    asked = threading.Event()
    thread = threading.Thread(target=lambda: (asked.wait(), speak(completer)))
    thread.start()
    completer = Completer(refused, gather_s=0.001, lasting=[thread.ident])
    asked.set()
    thread.join()
    assert told == []
    with completer:
        pass
    assert [[each[0] for each in responses] for _, responses in told] == [[1, 2, 3], [4], [5], [6]]


def refusing(call, *unwanted):
    """Return LoadGen's call as one whose binding takes no responses with these sizes."""

    def refuse(responses):
        if any(size in unwanted for _, size, _ in responses):
            raise TypeError("incompatible arguments")
        call(responses)

    return refuse


@pytest.mark.parametrize("gather_s", [0, 0.001])
def test_replies_that_loadgen_refuses_are_faults_and_are_given_up(told, refused, monkeypatch, gather_s):
    monkeypatch.setattr(module, "QuerySamplesComplete", refusing(module.QuerySamplesComplete, 40))
    monkeypatch.setattr(module, "FirstTokenComplete", refusing(module.FirstTokenComplete, 4))
    completer = Completer(refused, gather_s=gather_s)
    from_another_thread(lambda: speak(completer))
    with completer:
        pass
    heard = [response for what, responses in told for response in responses]
    assert sorted(id_ for id_, _, _ in heard) == [1, 2, 3, 5, 6]  # LoadGen would wait for an id that is not here
    assert (3, 0, None) in heard
    reason = "LoadGen refuses the reply: TypeError: incompatible arguments"
    assert ([30], reason) in refused
    assert ([40], "LoadGen refuses the first token: TypeError: incompatible arguments") in refused


def test_a_completion_thread_that_fails_says_so_and_lives_to_the_end_of_the_test(told, refused, monkeypatch):
    asked = threading.Event()

    def break_down(responses):
        asked.set()
        raise SystemExit("out of thread")

    monkeypatch.setattr(module, "QuerySamplesComplete", break_down)
    with Completer(refused) as completer:
        assert completer.failure == ""
        from_another_thread(lambda: completer.give_up(samples(6)))
        assert asked.wait(60)
        while not completer.failure:
            pass
        assert completer.failure == "SystemExit: out of thread"
        assert completer._thread.is_alive()
    assert not completer._thread.is_alive()
