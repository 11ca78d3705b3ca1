"""State in host memory, for executables that take it in and give it out."""

from types import SimpleNamespace

import numpy as np
import pytest

from mlbench import Dim, PluginError, TensorSpec
from mlbench.contracts.generation import LENGTH, SLOTS
from mlbench.contracts.graph import StatefulExecutable
from mlbench.execution.generation.host_state import HostState

SIZES = {SLOTS: 4, LENGTH: 5}


def spec(name, dtype):
    slots, length = (Dim(name=each, smallest=1, usual=1, largest=9) for each in (SLOTS, LENGTH))
    return TensorSpec(name=name, shape=(slots, 2, length), dtype=dtype)


def graph():
    return SimpleNamespace(name="sum", state=(spec("keys", "float32"), spec("values", "int8")))


def add(inputs):
    """Add ``x`` to all state; what comes out cannot be written to, as arrays of some libraries cannot."""
    after = {f"{name}.next": (inputs[name] + inputs["x"]).astype(inputs[name].dtype) for name in ("keys", "values")}
    for array in after.values():
        array.flags.writeable = False
    return {"y": inputs["keys"].sum(), **after}


@pytest.fixture
def executable():
    return HostState(add, graph())


def numbered(executable):
    state = executable.new_state(SIZES)
    for tensor in state.values():
        tensor[:] = np.arange(tensor.size).reshape(tensor.shape)
    return state


def test_it_is_what_the_engine_asks_for(executable):
    assert isinstance(executable, StatefulExecutable)


def test_new_state_is_zeros_of_the_graphs_form(executable):
    state = executable.new_state(SIZES)
    assert {name: (tensor.shape, str(tensor.dtype), tensor.any()) for name, tensor in state.items()} == {
        "keys": ((4, 2, 5), "float32", False),
        "values": ((4, 2, 5), "int8", False),
    }


def test_what_comes_out_of_a_call_goes_into_the_next(executable):
    state = executable.new_state(SIZES)
    assert list(executable({"x": np.float32(2)}, state)) == ["y"]
    assert executable({"x": np.float32(3)}, state)["y"] == 2 * 40
    assert (state["keys"] == 5).all() and (state["values"] == 5).all()


def test_two_states_of_one_executable_are_apart(executable):
    one, other = executable.new_state(SIZES), executable.new_state(SIZES)
    executable({"x": np.float32(1)}, one)
    assert one["keys"].all() and not other["keys"].any()


def test_larger_state_begins_with_the_old(executable):
    state = numbered(executable)
    grown = executable.resize(state, {SLOTS: 6, LENGTH: 7})
    for name, tensor in state.items():
        assert grown[name].shape == (6, 2, 7)
        np.testing.assert_array_equal(grown[name][:4, :, :5], tensor)
        assert grown[name].sum() == tensor.sum()


def test_rows_are_copied_in_the_columns_asked_for_all_read_before_one_is_written(executable):
    state = numbered(executable)
    executable({"x": np.float32(0)}, state)
    before = {name: tensor.copy() for name, tensor in state.items()}
    executable.copy_rows(state, [0, 1], [1, 3], range(1, 4))
    for name, tensor in state.items():
        np.testing.assert_array_equal(tensor[[1, 3], :, 1:4], before[name][[0, 1], :, 1:4])
        tensor[[1, 3], :, 1:4] = before[name][[1, 3], :, 1:4]
        np.testing.assert_array_equal(tensor, before[name])


def test_an_executable_that_leaves_its_state_out_is_refused():
    executable = HostState(lambda inputs: {"y": 1}, graph())
    with pytest.raises(PluginError, match=r"graph sum was compiled without its state: .*'keys.next'"):
        executable({"x": np.float32(1)}, executable.new_state(SIZES))
