"""The door of all parsers: whatever one raises is a line, and a budget ends what a file would make of itself."""

import pytest

from mlbench.errors import DataError, StorageError
from mlbench.system.documents import Budget, BudgetSpentError, Meter, foreign


class OddError(Exception):
    """Something that no list of exceptions has."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("its header is odd"), "its header is odd"),
        (OddError("x"), "it is damaged (OddError: x)"),
        (RecursionError("maximum"), "it nests too deep"),
        (MemoryError(), "reading it would take more memory than there is"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError("Not a gzipped file"), "Not a gzipped file"),
        (SystemError("of C"), "it is damaged (SystemError: of C)"),
    ],
)
def test_whatever_a_parser_raises_names_the_file_and_the_reason(error, reason):
    with pytest.raises(DataError) as caught, foreign("a/b.npz", "is not a zip file", hint="Get it again."):
        raise error
    assert str(caught.value) == f"a/b.npz is not a zip file: {reason}. Get it again."


def test_what_a_user_can_act_on_and_an_interruption_pass_the_door_as_they_are():
    with pytest.raises(StorageError, match="full"), foreign("f", "is odd"):
        raise StorageError("full")
    with pytest.raises(KeyboardInterrupt), foreign("f", "is odd"):
        raise KeyboardInterrupt


def test_a_budget_counts_bytes_members_and_nodes_apart():
    meter = Meter(Budget(bytes=10, members=2, nodes=3))
    meter.spend("bytes", 10)
    meter.spend("members", 2)
    meter.spend("nodes", 3)
    with pytest.raises(BudgetSpentError, match="it would expand too far: to more than 2 members"):
        meter.spend("members")


def test_a_budget_ends_with_its_seconds_and_its_depth():
    moments = iter([0.0, 9.0, 11.0])
    meter = Meter(Budget(seconds=10, depth=4), clock=lambda: next(moments))
    meter.spend("bytes")
    meter.reach(4)
    with pytest.raises(BudgetSpentError, match="nests deeper than 4 levels"):
        meter.reach(5)
    with pytest.raises(BudgetSpentError, match="takes longer than 10 s"):
        meter.spend("bytes")
