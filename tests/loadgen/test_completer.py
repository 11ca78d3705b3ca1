"""What LoadGen is told, and in how many calls."""

import threading

import numpy as np
import pytest

from mlbench import Samples
from mlbench.loadgen import completer as module
from mlbench.loadgen.completer import Completer


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
    return Samples(list(ids), list(ids), None)


def speak(completer):
    completer.complete(samples(1, 2), np.zeros((2, 3), np.float32))
    completer.complete(samples(3), [np.zeros(5, np.int64)], [5])
    completer.first_token(samples(4), np.zeros((1, 1), np.int32))
    completer.complete(samples(5), np.zeros((1, 3), np.float32))
    completer.give_up(samples(6))


def test_replies_that_wait_for_each_other_go_in_one_call_and_in_their_order(told):
    completer = Completer(gather_s=0.001)
    from_another_thread(lambda: speak(completer))
    with completer:
        pass
    assert told == [
        ("answers", [(1, 12, None), (2, 12, None), (3, 40, 5)]),
        ("first tokens", [(4, 4, None)]),
        ("answers", [(5, 12, None)]),
        ("answers", [(6, 0, None)]),
    ]


def test_replies_that_are_timed_go_one_by_one(told):
    completer = Completer()
    from_another_thread(lambda: speak(completer))
    with completer:
        pass
    assert [[each[0] for each in responses] for _, responses in told] == [[1, 2], [3], [4], [5], [6]]


def test_a_reply_on_the_thread_that_issues_is_told_at_once(told):
    completer = Completer(gather_s=0.001)
    completer.complete(samples(1), np.zeros((1, 3), np.float32))
    assert told == [("answers", [(1, 12, None)])]
