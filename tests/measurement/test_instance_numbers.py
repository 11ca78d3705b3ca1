"""Which numbers of instances are tried, and which is chosen."""

import pytest

from mlbench.errors import GraphError, UsageError
from mlbench.execution.processes.isolation import ProcessEndedError
from mlbench.measurement.instance_sweep import choose_number, try_numbers


def tried(rates, most=16):
    """Try numbers of instances that reach these rates; what is an error is raised."""

    def rate_of(count):
        found = rates[count]
        if isinstance(found, Exception):
            raise found
        return found

    return try_numbers(rate_of, most)


def test_numbers_double_up_to_the_cores():
    rates = {1: 10.0, 2: 20.0, 4: 40.0}
    assert tried(rates, most=4) == rates
    assert tried(rates, most=7) == rates
    assert tried(rates, most=3) == {1: 10.0, 2: 20.0}


def test_a_single_core_has_one_instance():
    assert tried({1: 5.0}, most=1) == {1: 5.0}


def test_no_more_are_tried_where_more_are_clearly_slower():
    """84 of 100 samples per second are less than 85 %; 86 are not."""
    assert list(tried({1: 50.0, 2: 100.0, 4: 84.0, 8: 500.0})) == [1, 2, 4]
    assert list(tried({1: 50.0, 2: 100.0, 4: 86.0, 8: 500.0, 16: 1.0})) == [1, 2, 4, 8, 16]


def test_a_rate_is_compared_with_the_best_and_not_against_the_last():
    """Each step loses less than 15 %, both together more."""
    assert list(tried({1: 100.0, 2: 90.0, 4: 80.0, 8: 1000.0})) == [1, 2, 4]


def test_numbers_that_are_near_the_best_are_tried_again_and_the_higher_rate_counts():
    """A moment of other work made two look slower than one; eight are too slow to matter."""
    tries = {1: [308.0, 290.0], 2: [280.0, 420.0], 4: [300.0, 310.0], 8: [200.0]}
    rates = try_numbers(lambda count: tries[count].pop(0), 8)
    assert rates == {1: 308.0, 2: 420.0, 4: 310.0, 8: 200.0}
    assert not any(tries.values())


def test_a_best_number_that_nothing_is_near_is_not_tried_again():
    tries = {1: [50.0], 2: [100.0], 4: [79.0]}
    assert try_numbers(lambda count: tries[count].pop(0), 4) == {1: 50.0, 2: 100.0, 4: 79.0}


def test_a_number_that_is_not_available_again_is_not_chosen(caplog):
    tries = {1: [100.0, 101.0], 2: [110.0]}

    def rate_of(count):
        if not tries[count]:
            raise ProcessEndedError("killed", "out of memory")
        return tries[count].pop(0)

    assert try_numbers(rate_of, 2) == {1: 101.0}
    assert "2 instances were not available again" in caplog.text


def test_where_none_is_available_again_one_is_left_to_choose():
    found = [100.0, 110.0]

    def rate_of(count):
        if not found:
            raise ProcessEndedError("killed", "out of memory")
        return found.pop(0)

    assert try_numbers(rate_of, 2) == {2: 110.0}


@pytest.mark.parametrize("error", [UsageError("8 GB are not enough."), ProcessEndedError("killed", "out of memory")])
def test_a_number_that_is_not_available_ends_the_search_with_what_was_found(error, caplog):
    assert tried({1: 10.0, 2: 19.0, 4: error}) == {1: 10.0, 2: 19.0}
    assert "4 instances are not available" in caplog.text


@pytest.mark.parametrize("error", [UsageError("no such option."), ProcessEndedError("killed", "crash")])
def test_where_not_even_one_instance_runs_the_reason_is_raised(error):
    with pytest.raises(type(error)):
        tried({1: error})


def test_what_is_wrong_with_a_graph_is_wrong_with_any_number():
    with pytest.raises(GraphError):
        tried({1: 10.0, 2: GraphError("operator Det.")})


@pytest.mark.parametrize(
    ("rates", "chosen"),
    [
        ({1: 100.0}, 1),
        ({1: 100.0, 2: 180.0, 4: 150.0}, 2),
        ({1: 100.0, 2: 101.0, 4: 101.9}, 1),
        ({1: 97.0, 2: 98.5, 4: 100.0}, 2),
        ({1: 10.0, 2: 20.0, 4: 40.0}, 4),
    ],
)
def test_the_fewest_instances_are_chosen_that_are_within_two_percent_of_the_best(rates, chosen):
    assert choose_number(rates) == chosen
