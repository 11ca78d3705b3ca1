"""When silence is a hang. By hand: the limit is 60 s."""

import pytest

from mlbench.execution.patience import is_hung


@pytest.mark.parametrize(
    ("silent_s", "computed_s", "hung"),
    [
        (60, 0, False),  # within the limit
        (61, 0, True),  # it waits
        (61, 6, True),  # less than a tenth
        (60.5, 22, False),  # a conversion on a machine that is busy with others
        (100, 22, False),
        (150, 59, False),
        (150, 60, True),  # it has had its 60 s of a processor
        (61, 61, True),  # it spins, on a machine of its own
        (61, 240, True),  # and on four processors
        (230, 23, False),
        (230, 22, True),  # it has slowed down to waiting
        (239, 50, False),
        (240, 50, True),  # enough is enough
    ],
)
def test_a_silent_process_is_hung_when_it_waits_or_spins_or_for_very_long(silent_s, computed_s, hung):
    assert is_hung(silent_s, computed_s, 60) is hung
