"""Graphs kept below their own largest sizes, and calls that exceed them."""

import numpy as np
import pytest

from mlbench import Dim, Precision, TensorSpec, UsageError
from mlbench.toolkit import CappedGraph, ModuleGraph, in_pieces, shape_ranges

ROWS = Dim(name="rows", smallest=1, usual=16, largest=128)
LENGTH = Dim(name="length", smallest=32, usual=64, largest=384)


def graph(outputs=((ROWS,),), state=(), second=(2,)) -> ModuleGraph:
    def specs(letter, shapes):
        return tuple(
            TensorSpec(name=f"{letter}{place}", shape=shape, dtype="float32") for place, shape in enumerate(shapes)
        )

    return ModuleGraph(
        "sums",
        inputs=specs("x", [(ROWS, LENGTH), second]),
        outputs=specs("y", outputs),
        state=specs("s", state),
        build=None,
        fingerprint="sums of 7",
    )


def test_a_cap_lowers_the_largest_size_and_the_usual_one_where_it_is_above():
    made = graph(state=[(ROWS, 2, LENGTH)], second=(LENGTH,))
    capped = CappedGraph(made, {"rows": 8, "length": 100, "tokens": 1})
    found = shape_ranges((*capped.inputs, *capped.outputs, *capped.state))
    assert {name: (each.smallest, each.usual, each.largest) for name, each in found.items()} == {
        "x0": ((1, 32), (8, 64), (8, 100)),
        "x1": ((32,), (64,), (100,)),
        "y0": ((1,), (8,), (8,)),
        "s0": ((1, 2, 32), (8, 2, 64), (8, 2, 100)),
    }


def test_all_else_is_the_graphs():
    capped = CappedGraph(graph(), {"rows": 8})
    assert (capped.name, capped.fingerprint) == ("sums", "sums of 7")
    assert capped.tolerance(Precision.FP16) == graph().tolerance(Precision.FP16)
    assert list(capped.calibration()) == []


def test_a_cap_below_the_smallest_size_is_refused():
    with pytest.raises(UsageError, match="length=16, but the graph's smallest length is 32"):
        CappedGraph(graph(), {"length": 16})


class Sums:
    """Adds up rows and the second input; refuses more than four rows, as an engine would."""

    def __init__(self):
        self.rows = []

    def __call__(self, inputs):
        self.rows.append(len(inputs["x0"]))
        assert self.rows[-1] <= 4
        return {"y0": inputs["x0"].sum(axis=1) + inputs["x1"].sum()}


@pytest.mark.parametrize(("count", "pieces"), [(1, [1]), (4, [4]), (5, [4, 1]), (10, [4, 4, 2])])
def test_a_call_of_more_rows_is_made_in_pieces_that_the_engine_takes(count, pieces):
    sums = Sums()
    run = in_pieces(sums, CappedGraph(graph(), {"rows": 4}))
    x = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    found = run({"x0": x, "x1": np.array([100, 1], np.float32)})["y0"]
    assert found.tolist() == [9 * row + 3 + 101 for row in range(count)]  # 0 + 1 + 2, 3 + 4 + 5, ...
    assert sums.rows == pieces


VALUES = Dim(name="values", smallest=1, usual=16, largest=999)
"""Of all rows together, one behind the other: a piece of the rows has its own part of them."""

WHOLE = {
    "an output without rows": graph(outputs=[(ROWS,), (3,)]),
    "no output with rows": graph(outputs=[(3,)]),
    "rows against rows": graph(outputs=[(ROWS, ROWS)]),
    "an input with other rows": graph(second=(VALUES,)),
    "state": graph(state=[(ROWS, LENGTH)]),
}


@pytest.mark.parametrize("made", WHOLE.values(), ids=WHOLE)
def test_what_has_no_rows_of_its_own_is_called_as_it_is(made):
    sums = Sums()
    assert in_pieces(sums, CappedGraph(made, {"rows": 4})) is sums
