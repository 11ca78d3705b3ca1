"""Copies of rows, in NumPy's arrays and torch's tensors alike."""

import numpy as np
import pytest

from mlbench.toolkit import copy_rows

ROWS = np.arange(12).reshape(6, 2)


def in_numpy(rows, sources, targets):
    copy_rows(rows, sources, targets)
    return rows


def in_torch(rows, sources, targets):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(rows)
    copy_rows(tensor, sources, targets)
    return tensor.numpy()


@pytest.mark.parametrize("copied", [in_numpy, in_torch])
@pytest.mark.parametrize(
    ("sources", "targets", "expected"),
    [
        ([0, 0, 4], [1, 3, 5], [0, 0, 2, 0, 4, 4]),
        ([0, 1, 2], [1, 2, 0], [2, 0, 1, 3, 4, 5]),
        ([], [], [0, 1, 2, 3, 4, 5]),
    ],
    ids=["apart", "in a circle", "none"],
)
def test_all_sources_are_read_before_a_target_is_written(copied, sources, targets, expected):
    assert copied(ROWS.copy(), sources, targets).tolist() == ROWS[expected].tolist()


def test_a_part_of_each_row_is_copied_in_place():
    rows = ROWS.copy()
    copy_rows(rows[:, 1:], [0], [5])
    assert rows[5].tolist() == [10, 1]


def test_as_many_targets_as_sources_are_asked_for():
    with pytest.raises(ValueError, match="shorter"):
        copy_rows(ROWS.copy(), [0, 1], [2])
