import pytest

from mlbench.toolkit import KeptStates


class Slots:
    """Makes states that are lists of zeros."""

    def new_state(self, sizes):
        return [0] * sizes["slots"]


def test_a_state_is_kept_until_one_with_more_slots_is_asked_for():
    states, executable = KeptStates(), Slots()
    first = states.state_with(3, executable)
    assert states.state_with(2, executable) is first
    assert len(states.state_with(4, executable)) == 4
    assert len(states.state_with(1, Slots())) == 1  # another's


def test_a_new_state_alone_is_begun_and_is_kept_only_if_that_succeeds():
    states, executable = KeptStates(), Slots()

    def begin(state):
        state[0] += 1

    assert states.state_with(2, executable, begin) == [1, 0]
    assert states.state_with(2, executable, begin) == [1, 0]
    with pytest.raises(ZeroDivisionError):
        states.state_with(3, executable, lambda state: 1 / 0)
    assert states.state_with(2, executable, begin) == [1, 0]
    assert len(states.state_with(2, executable)) == 2
