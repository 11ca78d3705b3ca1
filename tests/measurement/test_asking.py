"""What comes back from an engine that is asked outside LoadGen's test."""

import threading

import numpy as np
import pytest
from measured_parts import Numbers

from mlbench import Engine
from mlbench.measurement.asking import ask


class Squaring(Engine):
    """Answers each sample with its square, from `submit`; notes what it was asked for."""

    def __init__(self):
        self.queries, self.flushes, self.ids = [], 0, []

    def submit(self, samples, reply):
        self.queries.append(list(samples.indices))
        self.ids += samples.ids
        for place, index in enumerate(samples.indices):
            self.answer(samples[place : place + 1], index, reply)

    def answer(self, one, index, reply):
        reply.complete(one, np.array([[index * index]]))

    def flush(self):
        self.flushes += 1


def outputs(answers):
    return [None if output is None else output.ravel().tolist() for output in answers.outputs]


def test_answers_stand_in_the_order_of_the_questions():
    engine = Squaring()
    answers = ask(engine, Numbers(), [3, 1, 2], timeout_s=5)
    assert outputs(answers) == [[9], [1], [4]]
    assert engine.queries == [[3, 1, 2]]
    assert answers.is_whole
    assert answers.tokens == 3


def test_the_same_sample_asked_for_twice_has_two_answers():
    assert outputs(ask(Squaring(), Numbers(), [5, 5], timeout_s=5)) == [[25], [25]]


def test_queries_of_a_size_are_sent_one_after_another_and_the_last_may_be_smaller():
    engine = Squaring()
    assert outputs(ask(engine, Numbers(), [0, 1, 2, 3, 4], query=2, timeout_s=5)) == [[0], [1], [4], [9], [16]]
    assert engine.queries == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("query", [None, 1])
def test_an_engine_is_reported_that_nothing_more_comes(query):
    engine = Squaring()
    ask(engine, Numbers(), [1, 2], query=query, timeout_s=5)
    assert engine.flushes == 1


def test_ids_are_like_loadgens_addresses_so_that_an_engine_cannot_tell_that_it_is_not_measured():
    engine = Squaring()
    ask(engine, Numbers(), [7, 8], timeout_s=5)
    first, second = engine.ids
    assert second - first == 64
    assert first > 2**46


class Late(Squaring):
    """Answers a query from another thread, when it is let; notes what came while a query was open."""

    def __init__(self):
        super().__init__()
        self.open, self.most_open, self.has_query = 0, 0, threading.Event()

    def submit(self, samples, reply):
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        self.queries.append(list(samples.indices))
        threading.Timer(0.01, self.finish, (samples, reply)).start()

    def finish(self, samples, reply):
        self.open -= 1
        reply.complete(samples, np.ones((len(samples), 1)))


def test_a_query_is_sent_only_when_the_one_before_is_answered():
    engine = Late()
    assert ask(engine, Numbers(), [0, 1, 2, 3], query=1, timeout_s=5).is_whole
    assert engine.most_open == 1


def test_the_first_answer_to_a_sample_counts():
    class Correcting(Squaring):
        def answer(self, one, index, reply):
            super().answer(one, index, reply)
            reply.complete(one, np.array([[-1]]))

    assert outputs(ask(Correcting(), Numbers(), [3, 4], timeout_s=5)) == [[9], [16]]


def test_an_answer_after_a_failure_is_no_answer():
    class Repenting(Squaring):
        def answer(self, one, index, reply):
            reply.fail(one, "no memory")
            super().answer(one, index, reply)

    answers = ask(Repenting(), Numbers(), [3], timeout_s=5)
    assert outputs(answers) == [None]
    assert not answers.is_whole


def test_answers_are_copies_so_that_an_engine_may_use_its_buffer_again():
    class Reusing(Squaring):
        buffer = np.zeros((1, 1))

        def answer(self, one, index, reply):
            self.buffer[0, 0] = index
            reply.complete(one, self.buffer)

    assert outputs(ask(Reusing(), Numbers(), [3, 4, 5], timeout_s=5)) == [[3], [4], [5]]


def test_answers_to_what_nobody_asked_change_nothing():
    class Chatting(Squaring):
        def answer(self, one, index, reply):
            stranger = type(one)([1], [0], Numbers())
            reply.complete(stranger, np.array([[99]]))
            super().answer(one, index, reply)

    assert outputs(ask(Chatting(), Numbers(), [2, 3], timeout_s=5)) == [[4], [9]]


@pytest.mark.parametrize("query", [None, 1])
def test_an_engine_that_raises_has_failed_the_query_and_is_asked_for_the_others(query):
    class Raising(Squaring):
        def answer(self, one, index, reply):
            if index == 2:
                raise MemoryError
            super().answer(one, index, reply)

    answers = ask(Raising(), Numbers(), [1, 2, 3], query=query, timeout_s=5)
    assert outputs(answers) == ([[1], None, None] if query is None else [[1], None, [9]])


def test_an_engine_that_does_not_answer_is_waited_for_no_longer_than_it_may_take_and_asked_no_more():
    class Silent(Squaring):
        def answer(self, one, index, reply):
            if index < 2:
                super().answer(one, index, reply)

    engine = Silent()
    answers = ask(engine, Numbers(), [0, 1, 2, 3], query=1, timeout_s=0.01)
    assert outputs(answers) == [[0], [1], None, None]
    assert engine.queries == [[0], [1], [2]]


class Speaking(Squaring):
    """Three tokens a sample: the first after 5 ns, the others after 10 each; says each token of it as first."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def answer(self, one, index, reply):
        for token, takes_ns in enumerate((5, 10, 10)):
            self.clock.now_ns += takes_ns
            reply.first_token(one, np.array([[token]]))
        reply.complete(one, np.array([[0, 1, 2]]))


def test_times_run_from_the_first_query_and_only_the_first_of_first_tokens_counts(clock):
    answers = ask(Speaking(clock), Numbers(), [6, 7], timeout_s=5)
    assert answers.first_ns == [5, 30]
    assert answers.lasted_ns == 50
    assert answers.tokens == 6


def test_a_sample_without_a_first_token_has_no_time_of_one(clock):
    assert ask(Squaring(), Numbers(), [6], timeout_s=5).first_ns == [None]


def test_elements_of_samples_that_failed_are_not_counted():
    class Failing(Squaring):
        def answer(self, one, index, reply):
            if index:
                reply.complete(one, np.zeros((1, 5)))
            else:
                reply.fail(one, "")

    assert ask(Failing(), Numbers(), [0, 1, 2], timeout_s=5).tokens == 10
