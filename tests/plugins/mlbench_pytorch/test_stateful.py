"""Graphs with state on the PyTorch backend: a notebook of numbers, whose pages are read back."""

import numpy as np
import pytest
from mlbench_pytorch.backend import PyTorch

from mlbench import Dim, Precision, TensorSpec
from mlbench.contracts.graph import StatefulExecutable
from mlbench.toolkit import ModuleGraph, TorchOptions

torch = pytest.importorskip("torch")

ROWS = Dim(name="slots", smallest=1, usual=2, largest=8)
LENGTH = Dim(name="length", smallest=1, usual=4, largest=16)
SIZES = {"slots": 4, "length": 6}


class Notebook(torch.nn.Module):
    """Writes numbers into rows at a column, and reads the sums of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(self.twice.weight, 2.0)

    def forward(self, numbers, column, notes, counts):
        doubled = self.twice(numbers[:, None]).to(notes.dtype)
        notes[: len(numbers), 0, column[0]] = doubled[:, 0]
        counts[: len(numbers), column[0]] += 1
        return notes[: len(numbers), 0].float().sum(dim=1), notes, counts


def graph() -> ModuleGraph:
    return ModuleGraph(
        "notebook",
        inputs=(
            TensorSpec(name="numbers", shape=(ROWS,), dtype="float32"),
            TensorSpec(name="column", shape=(1,), dtype="int64"),
        ),
        outputs=(TensorSpec(name="sums", shape=(ROWS,), dtype="float32"),),
        state=(
            TensorSpec(name="notes", shape=(ROWS, 2, LENGTH), dtype="float32"),
            TensorSpec(name="counts", shape=(ROWS, LENGTH), dtype="int64"),
        ),
        build=Notebook,
        fingerprint="notebook",
    )


def compiled(precision=Precision.FP32):
    return PyTorch().with_options(TorchOptions(device="cpu")).compile(graph(), precision)


def write(executable, state, numbers, column):
    return executable({"numbers": np.array(numbers, np.float32), "column": np.array([column])}, state)["sums"].tolist()


def test_a_graph_with_state_compiles_to_a_stateful_executable():
    assert isinstance(compiled(), StatefulExecutable)


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [(Precision.FP32, torch.float32), (Precision.BF16, torch.bfloat16), (Precision.FP16, torch.float16)],
)
def test_new_state_is_zeros_in_the_precision_that_is_computed_in(precision, dtype):
    notes, counts = compiled(precision).new_state(SIZES)
    assert (notes.shape, notes.dtype) == ((4, 2, 6), dtype)
    assert (counts.shape, counts.dtype) == ((4, 6), torch.int64)
    assert not notes.any() and not counts.any()


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16, Precision.FP16])
def test_a_call_updates_the_state_in_place_for_the_next(precision):
    executable = compiled(precision)
    state = executable.new_state(SIZES)
    before = [tensor.data_ptr() for tensor in state]
    assert write(executable, state, [1, 2, 3], 0) == [2, 4, 6]
    assert write(executable, state, [10, 20], 4) == [22, 44]
    assert [tensor.data_ptr() for tensor in state] == before
    assert state[1].tolist() == [[1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0], [1, 0, 0, 0, 0, 0], [0] * 6]


def test_one_state_serves_several_executables_and_two_states_are_apart():
    one, other = compiled(), compiled()
    shared, own = one.new_state(SIZES), other.new_state(SIZES)
    write(one, shared, [1, 2], 0)
    assert write(other, shared, [10, 20], 1) == [22, 44]
    assert write(other, own, [10, 20], 1) == [20, 40]


def test_larger_state_begins_with_the_old():
    executable = compiled()
    state = executable.new_state(SIZES)
    write(executable, state, [1, 2, 3, 4], 5)
    grown = executable.resize(state, {"slots": 5, "length": 9})
    assert [tuple(tensor.shape) for tensor in grown] == [(5, 2, 9), (5, 9)]
    assert write(executable, grown, [10] * 5, 8) == [22, 24, 26, 28, 20]


def test_rows_are_copied_in_the_columns_asked_for_all_read_before_one_is_written():
    executable = compiled()
    state = executable.new_state(SIZES)
    for column in range(6):
        write(executable, state, [100 + column, 200 + column, 300 + column, 400 + column], column)
    executable.copy_rows(state, [0, 1], [1, 3], range(2, 4))
    assert (state[0][:, 0] / 2).tolist() == [
        [100, 101, 102, 103, 104, 105],
        [200, 201, 102, 103, 204, 205],
        [300, 301, 302, 303, 304, 305],
        [400, 401, 202, 203, 404, 405],
    ]


def test_outputs_stay_unchanged_by_later_calls():
    executable = compiled()
    state = executable.new_state(SIZES)
    first = executable({"numbers": np.ones(2, np.float32), "column": np.array([0])}, state)["sums"]
    write(executable, state, [5, 6], 0)
    assert first.tolist() == [2, 2]


def test_stacks_of_matrices_are_kept_in_the_lower_precision_too():
    from mlbench.toolkit.torch_backend.executable import TorchExecutable

    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.matrices = torch.nn.Parameter(torch.ones(2, 3, 3))
            self.places = torch.nn.Parameter(torch.ones(1, 4, 3))

        def forward(self, x):
            return x @ self.matrices[0]

    made = Experts()
    plain = ModuleGraph(
        "experts",
        inputs=(TensorSpec(name="x", shape=(ROWS, 3), dtype="float32"),),
        outputs=(TensorSpec(name="y", shape=(ROWS, 3), dtype="float32"),),
        build=lambda: made,
        fingerprint="experts",
    )
    executable = PyTorch().with_options(TorchOptions(device="cpu")).compile(plain, Precision.BF16)
    assert isinstance(executable, TorchExecutable)
    assert executable({"x": np.ones((1, 3), np.float32)})["y"].tolist() == [[3, 3, 3]]
    assert (made.matrices.dtype, made.places.dtype) == (torch.bfloat16, torch.float32)
