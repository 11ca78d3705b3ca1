"""Which numbers of a comparison are measured again, interleaved, and what becomes of them."""

from datetime import timedelta

import pytest

from mlbench.comparison.compare import compare
from mlbench.comparison.confirmation import cells_to_confirm, confirm


@pytest.fixture
def runs(a_run):
    """Return runs of so much throughput, a number of minutes after the first."""

    def runs(name, values, minutes=None):
        result = a_run().result.model_dump()
        return [
            a_run(
                run_id=f"{name}-{number}",
                created=a_run().created + timedelta(minutes=minutes[number] if minutes else number),
                result=result | {"value": value},
            )
            for number, value in enumerate(values)
        ]

    return runs


@pytest.fixture
def untold(runs):
    """Return a comparison of one run with another, which tells nothing."""
    return compare(runs("base", [100]), runs("new", [99]))


def in_turns(runs, base, new):
    """Return the comparison of three pairs made interleaved, A B B A A B."""
    return compare(runs("base", [100]), runs("new", new, [1, 2, 5]), again=runs("again", base, [0, 3, 4]))


def test_what_one_run_each_cannot_tell_is_to_be_measured_again(untold):
    assert [cell.name for cell in cells_to_confirm(untold)] == [untold.cells[0].name]


def test_what_turns_could_not_tell_is_not_measured_once_more(runs):
    measured = in_turns(runs, [100, 75, 90], [100, 90, 70])
    assert measured.cells[0].speeds[0].verdict == "cannot tell"
    assert cells_to_confirm(measured) == []


def test_rates_that_differ_are_not_measured_again(untold):
    """No runs could compare them."""
    from dataclasses import replace

    (cell,) = untold.cells
    loads_differ = replace(cell, speeds=(replace(cell.speeds[0], effect=None),))
    assert cells_to_confirm(replace(untold, cells=(loads_differ,))) == []


def test_a_number_that_could_not_be_told_becomes_the_same_and_the_comparison_says_so(runs, untold):
    found = confirm(untold, in_turns(runs, [100, 100.5, 100], [100, 100, 100.5]))
    (done,) = found.confirmed
    assert (done.before, done.after, done.runs) == ("cannot tell", "same", 3)
    assert found.cells[0].speeds[0].verdict == "same"


def test_what_turns_cannot_tell_either_is_no_suspicion(runs, untold):
    """A quarter was lost in the middle, with runs that differ as much: nobody looked slower before."""
    found = confirm(untold, in_turns(runs, [100, 100, 100], [100, 90, 70]))
    assert found.cells[0].speeds[0].verdict == "cannot tell"
    assert found.suspected == ()
    assert found.confirmed[0].after == "cannot tell"
