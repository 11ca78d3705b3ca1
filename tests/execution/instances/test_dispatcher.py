"""Consumers that note what they are given, without processes."""

import pytest

from mlbench import Capacity, Reply, Samples
from mlbench.execution.instances.dispatcher import Consumer, Dispatcher


class Noted(Reply):
    def __init__(self):
        self.failures, self.invalidated = [], []

    def complete(self, samples, outputs, token_counts=None):
        raise AssertionError("nothing is computed here")

    def first_token(self, samples, tokens):
        raise AssertionError("nothing is computed here")

    def fail(self, samples, reason):
        self.failures.append((list(samples.ids), list(samples.indices), reason))

    def invalidate(self, reason):
        self.invalidated.append(reason)


def consumers(*capacities):
    """Return consumers with what each is given: (dataset indices, test, is flushed)."""
    given = [[] for _ in capacities]
    return [
        Consumer(
            lambda samples, test, is_flushed, note=note: note.append((list(samples.indices), test, is_flushed)),
            Capacity(batch=together, in_flight=most),
        )
        for (together, most), note in zip(capacities, given, strict=True)
    ], given


def samples(*indices):
    return Samples([100 + index for index in indices], list(indices), None)


def test_samples_that_run_together_come_together_and_no_more_than_are_wanted():
    (one, two), (first, second) = consumers((2, 4), (2, 4))
    sharing = Dispatcher([one, two], None)
    sharing.put(samples(*range(11)), Noted())
    assert [indices for indices, *_ in first] == [[0, 1, 2, 3]]
    assert [indices for indices, *_ in second] == [[4, 5], [6, 7]]


def test_who_is_done_gets_more_and_who_is_not_does_not():
    (one, two), (first, second) = consumers((2, 2), (2, 2))
    sharing = Dispatcher([one, two], None)
    sharing.put(samples(*range(9)), Noted())
    back = sharing.take_back(two, [2, 3], [2, 3])
    assert (list(back.ids), list(back.indices)) == ([102, 103], [2, 3])
    assert [indices for indices, *_ in first] == [[0, 1]]
    assert [indices for indices, *_ in second] == [[2, 3], [4, 5]]
    sharing.take_back(two, [4], [4])
    assert len(second) == 2, "one is free, and two should come together"
    sharing.take_back(two, [5], [5])
    assert second[2][0] == [6, 7]


def test_the_last_are_shared_out_even_though_one_could_take_them_all():
    (one, two), (first, second) = consumers((2, 8), (2, 8))
    sharing = Dispatcher([one, two], None)
    sharing.put(samples(*range(4)), Noted())
    assert [indices for indices, *_ in first + second] == [[0, 1], [2, 3]]


def test_single_samples_go_to_who_has_least_to_do():
    (one, two, three), given = consumers((1, 4), (1, 4), (1, 4))
    sharing = Dispatcher([one, two, three], None)
    for index in range(4):
        sharing.put(samples(index), Noted())
    assert [len(each) for each in given] == [2, 1, 1]
    sharing.take_back(two, [1], [1])
    sharing.put(samples(4), Noted())
    assert given[1][-1][0] == [4]


def test_two_tests_do_not_mix_and_a_sample_of_each_may_have_one_id():
    (one,), (given,) = consumers((4, 4))
    sharing = Dispatcher([one], None)
    early, late = Noted(), Noted()
    sharing.put(samples(0, 1), early)
    sharing.put(samples(0, 1), late)
    assert [(indices, test) for indices, test, _ in given] == [([0, 1], 0), ([0, 1], 1)]
    assert (sharing.reply(0), sharing.reply(1)) == (early, late)


def test_after_a_flush_all_that_is_given_out_is_marked_until_more_comes():
    (one,), (given,) = consumers((1, 1))
    sharing = Dispatcher([one], None)
    sharing.put(samples(0, 1), Noted())
    sharing.flush()
    sharing.take_back(one, [0], [0])
    sharing.put(samples(2), Noted())
    sharing.take_back(one, [1], [1])
    assert [is_flushed for *_, is_flushed in given] == [False, True, False]


def test_a_sample_that_comes_back_twice_belongs_to_no_consumer():
    (one,), _ = consumers((1, 1))
    sharing = Dispatcher([one], None)
    sharing.put(samples(0), Noted())
    assert list(sharing.take_back(one, [0], [0]).ids) == [100]
    assert list(sharing.take_back(one, [0], [0]).ids) == [-1]
    assert not len(sharing.take_back(one, [0]))


def test_what_a_lost_taker_had_fails_test_by_test_and_the_rest_goes_to_others():
    (one, two), (_, second) = consumers((1, 2), (1, 1))
    sharing = Dispatcher([one, two], None)
    early, late = Noted(), Noted()
    sharing.put(samples(0, 1), early)
    sharing.put(samples(2, 3), late)
    sharing.lose(one, "gone")
    assert early.failures == [([100], [0], "gone")]
    assert late.failures == [([102], [2], "gone")]
    sharing.take_back(two, [1], [1])
    assert [indices for indices, *_ in second] == [[1], [3]]


@pytest.mark.parametrize("waiting", [0, 3])
def test_with_the_last_taker_all_fail_that_wait_and_that_come(waiting):
    (one,), _ = consumers((1, 1))
    sharing, reply = Dispatcher([one], None), Noted()
    sharing.put(samples(*range(1 + waiting)), reply)
    sharing.lose(one, "gone")
    sharing.put(samples(9), reply)
    failed = [index for _, indices, _ in reply.failures for index in indices]
    assert failed == [*range(1 + waiting), 9]


def test_a_consumer_that_was_lost_with_nothing_to_do_invalidates_the_next_test_once():
    (one, two), (_, second) = consumers((1, 4), (1, 4))
    sharing, reply = Dispatcher([one, two], None), Noted()
    sharing.lose(one, "gone")
    sharing.put(samples(0, 1, 2), reply)
    sharing.put(samples(3), reply)
    assert (reply.failures, reply.invalidated) == ([], ["gone"])
    assert [indices for indices, *_ in second] == [[0, 1, 2], [3]]


@pytest.mark.parametrize(
    ("taking", "count", "parts"),
    [
        (2, 8, [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (3, 8, [[0, 1], [2, 3, 4], [5, 6, 7]]),
        (4, 1, [[0]]),
        (3, 2, [[0], [1]]),
    ],
)
def test_a_query_that_is_dealt_out_reaches_as_many_as_it_has_samples_at_once(taking, count, parts):
    """None of them is asked how much it wants: the sender waits for the whole query."""
    those, given = consumers(*[(1, 1)] * taking)
    Dispatcher(those, None).deal(samples(*range(count)), Noted())
    assert [[indices for indices, *_ in each] for each in given if each] == [[part] for part in parts]


def test_queries_of_one_sample_go_to_the_idle_in_turn():
    those, given = consumers((1, 1), (1, 1), (1, 1))
    sharing = Dispatcher(those, None)
    for index in range(4):
        sharing.deal(samples(index), Noted())
        if index != 1:
            sharing.take_back(those[index % 3], [index], [index])
    assert [[indices for indices, *_ in each] for each in given] == [[[0], [3]], [[1]], [[2]]]


def test_a_dealt_part_fails_with_the_instance_that_had_it_and_later_queries_go_to_the_others():
    (one, two), (_, second) = consumers((1, 1), (1, 1))
    sharing, reply = Dispatcher([one, two], None), Noted()
    sharing.deal(samples(0, 1, 2, 3), reply)
    sharing.lose(one, "gone")
    sharing.deal(samples(4, 5), reply)
    assert reply.failures == [([100, 101], [0, 1], "gone")]
    assert [indices for indices, *_ in second] == [[2, 3], [4, 5]]
    sharing.lose(two, "gone too")
    sharing.deal(samples(6), reply)
    assert reply.failures[1:] == [([102, 103, 104, 105], [2, 3, 4, 5], "gone too"), ([106], [6], "gone too")]


def test_a_consumer_that_was_lost_between_two_queries_invalidates_the_next():
    (one, two), _ = consumers((1, 1), (1, 1))
    sharing, reply = Dispatcher([one, two], None), Noted()
    sharing.lose(one, "gone")
    sharing.deal(samples(0, 1), reply)
    assert (reply.failures, reply.invalidated) == ([], ["gone"])
