"""Engines that begin samples in a given order, and what is seen of it."""

import random

import numpy as np
import pytest

from mlbench import Capacity, Engine, Reply, Samples
from mlbench.execution.pass_order import OrderedEngine, influence

PASSES, SIZE = 4, 200


class Ignored(Reply):
    def complete(self, samples, outputs, token_counts=None):
        pass

    def first_token(self, samples, tokens):
        pass

    def fail(self, samples, reason):
        pass

    def invalidate(self, reason):
        pass


class InOrder(Engine):
    """Begins samples in this order of positions, and answers each so many samples later."""

    def __init__(self, order, *, at_a_time=1, says_first=True, capacity=None):
        self.order, self.at_a_time, self.says_first, self.wanted = order, at_a_time, says_first, capacity

    def submit(self, samples, reply):
        places = self.order(samples)
        for begun in range(len(places) + self.at_a_time - 1):
            if begun < len(places) and self.says_first:
                reply.first_token(samples.at([places[begun]]), np.zeros((1, 1)))
            if (done := begun - self.at_a_time + 1) >= 0:
                reply.complete(samples.at([places[done]]), np.zeros((1, 1)))

    def capacity(self):
        return self.wanted


def a_query(passes=PASSES, size=SIZE):
    """Return samples that go over a dataset several times, each time in another order; LoadGen's ids are addresses."""
    rng = random.Random(5)
    indices = [index for _ in range(passes) for index in rng.sample(range(size), size)]
    return Samples([10**6 + 32 * place for place in range(len(indices))], indices, None)


def length(index):
    return 20 + index * 7919 % 977


def seen(engine, samples=None):
    ordered = OrderedEngine(engine)
    ordered.submit(samples or a_query(), Ignored())
    return ordered.influence_of_length(lambda indices: [length(index) for index in indices])


def as_it_came(samples):
    return list(range(len(samples)))


def sorted_across(samples):
    return sorted(as_it_came(samples), key=lambda place: -length(samples.indices[place]))


def sorted_within(samples):
    return sorted(as_it_came(samples), key=lambda place: (place // SIZE, -length(samples.indices[place])))


def mixed(samples):
    return random.Random(1).sample(as_it_came(samples), len(samples))


@pytest.mark.parametrize("says_first", [True, False])
def test_an_engine_that_sorts_across_passes_is_seen_whichever_end_it_begins_with(says_first):
    assert seen(InOrder(sorted_across, says_first=says_first)) == 1
    assert seen(InOrder(lambda samples: sorted_across(samples)[::-1], says_first=says_first)) == 1
    assert seen(InOrder(sorted_across, at_a_time=30, says_first=says_first)) > 0.9


def test_of_a_query_with_many_passes_some_samples_of_each_are_enough(monkeypatch):
    monkeypatch.setattr("mlbench.execution.pass_order._PAIRS", PASSES * 40**2)
    assert seen(InOrder(sorted_across)) == 1
    assert seen(InOrder(as_it_came)) == seen(InOrder(sorted_within)) == 0
    assert seen(InOrder(mixed)) < 0.1


@pytest.mark.parametrize("order", [as_it_came, sorted_within])
def test_an_engine_that_goes_pass_by_pass_is_not(order):
    assert seen(InOrder(order)) == 0


def test_passes_that_are_mixed_without_regard_to_length_are_no_sorting():
    assert seen(InOrder(mixed)) < 0.1


def test_samples_that_run_beside_each_other_may_begin_in_any_order():
    def sorted_at_the_seam(samples):
        """Take 40 at a time off the queue, each 40 sorted by length: half of some are of the next pass."""
        places = sorted_within(samples)
        shifted = [places[:20], *(places[start : start + 40] for start in range(20, len(places), 40))]
        return [place for part in shifted for place in sorted(part, key=lambda p: -length(samples.indices[p]))]

    assert seen(InOrder(sorted_at_the_seam, at_a_time=40)) == 0
    assert seen(InOrder(sorted_at_the_seam, says_first=False, capacity=Capacity(batch=1, in_flight=40))) == 0


def test_nothing_is_said_where_a_pass_has_no_more_samples_than_run_at_a_time():
    assert seen(InOrder(sorted_across, capacity=Capacity(batch=1, in_flight=SIZE))) is None
    assert seen(InOrder(sorted_across, at_a_time=SIZE)) is None


def test_nothing_is_said_of_a_query_that_goes_over_the_dataset_once():
    assert seen(InOrder(sorted_across), a_query(passes=1)) is None


def test_by_hand_the_influence_is_the_difference_of_two_shares():
    first = [(10, 5)] * 16
    assert (
        influence([first, [(1, 9)] * 8 + [(20, 1)] * 8]) == 1
    )  # all that are longer come before, none that are shorter
    assert influence([first, [(1, 9)] * 8 + [(1, 1)] * 4 + [(20, 1)] * 4]) == 0.5
    assert influence([first, [(10, 9)] * 8 + [(10, 1)] * 8]) == 0  # at the same time
    assert influence([first, [(1, 5)] * 16]) is None  # alike
