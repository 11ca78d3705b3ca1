import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_onnxruntime.providers import Place
from mlbench_onnxruntime.row_copies import copy_whole_rows
from mlbench_onnxruntime.stateful import StatefulSession, find_updatable

from mlbench import Dim, Precision, TensorSpec
from mlbench.conformance.known_state import stepping_graph
from mlbench.conformance.state_checks import STATE_CHECKS
from mlbench.conformance.subject import Subject
from mlbench.contracts.graph import StatefulExecutable
from mlbench.toolkit import ModuleGraph

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

ROWS, SLOTS, LENGTH = (Dim(name=name, smallest=1, usual=2, largest=64) for name in ("rows", "slots", "length"))
HEADS, SIZE = 2, 3
NOTE = ("notes", "places", "updates", "notes.next")
"""A ScatterND that writes a row of the state; its inputs and its output."""


class FileGraph(ModuleGraph):
    """A graph with state that is an ONNX file already, so that nothing needs to be exported."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            "notes",
            inputs=(
                TensorSpec(name="slots", shape=(ROWS,), dtype="int64"),
                TensorSpec(name="x", shape=(ROWS, HEADS, LENGTH, SIZE), dtype="float32"),
            ),
            outputs=(TensorSpec(name="sums", shape=(SLOTS, HEADS, LENGTH, SIZE), dtype="float32"),),
            state=(TensorSpec(name="notes", shape=(SLOTS, HEADS, LENGTH, SIZE), dtype="float32"),),
            build=None,
            fingerprint="notes",
        )
        self._file = file

    def onnx(self) -> Path:
        return self._file


WEIGHT = np.arange(-4, 5, dtype=np.float32).reshape(SIZE, SIZE) / 4


def saved(file: Path, *nodes: tuple[str, Sequence[str], str]) -> FileGraph:
    """Write a file of operators; each is a kind, its inputs and its output."""
    info, floats = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    shape = ["slots", HEADS, "length", SIZE]
    inputs = [
        info("slots", onnx.TensorProto.INT64, ["rows"]),
        info("x", floats, ["rows", HEADS, "length", SIZE]),
        info("notes", floats, shape),
    ]
    outputs = [info("sums", floats, shape), info("notes.next", floats, shape)]
    constants = {"last": np.array([1]), "weight": WEIGHT, "ten": np.float32([10])}
    weights = [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()]
    made = [onnx.helper.make_node(kind, inputs, [output], name=output) for kind, inputs, output in nodes]
    places = onnx.helper.make_node("Unsqueeze", ["slots", "last"], ["places"])
    graph = onnx.helper.make_graph([places, *made], "notes", inputs, outputs, weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    onnx.checker.check_model(model)
    onnx.save(model, file)
    return FileGraph(file)


@pytest.fixture
def writing(tmp_path: Path) -> FileGraph:
    """Writes rows of x into the state, and returns twice the state after it."""
    return saved(
        tmp_path / "writing.onnx",
        ("ScatterND", ["notes", "places", "x"], "notes.next"),
        ("Add", ["notes.next", "notes.next"], "sums"),
    )


@pytest.fixture
def late_reading(tmp_path: Path) -> FileGraph:
    """Writes rows of x into the state, and returns the state before plus the state after it."""
    return saved(
        tmp_path / "late.onnx",
        ("ScatterND", ["notes", "places", "x"], "notes.next"),
        ("Add", ["notes.next", "notes"], "sums"),
    )


def compiled(graph: FileGraph, precision: Precision = Precision.FP32) -> StatefulSession:
    backend = OnnxRuntime()
    backend.options = replace(backend.options, threads=1)
    return backend.compile(graph, precision)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_it_is_a_stateful_executable(writing: FileGraph):
    assert isinstance(compiled(writing), StatefulExecutable)


def test_a_state_that_only_a_scatter_reads_is_updated_where_it_lies(writing: FileGraph):
    executable = compiled(writing)
    state = executable.new_state({"slots": 4, "length": 5})
    memory = state.values["notes"].data_ptr()
    x = numbers(2, HEADS, 5, SIZE)
    sums = executable({"slots": np.array([3, 1]), "x": x}, state)["sums"]
    expected = np.zeros((4, HEADS, 5, SIZE), np.float32)
    expected[[3, 1]] = x
    np.testing.assert_array_equal(sums, 2 * expected)
    np.testing.assert_array_equal(state.arrays["notes"], expected)
    assert state.values["notes"].data_ptr() == memory


def test_a_state_that_is_read_after_the_scatter_too_is_not_overwritten_under_the_reader(late_reading: FileGraph):
    executable = compiled(late_reading)
    state = executable.new_state({"slots": 3, "length": 5})
    before = np.zeros((3, HEADS, 5, SIZE), np.float32)
    for call in range(4):
        x, after = numbers(1, HEADS, 5, SIZE, seed=call), before.copy()
        after[call % 3] = x[0]
        sums = executable({"slots": np.array([call % 3]), "x": x}, state)["sums"]
        np.testing.assert_array_equal(sums, before + after)
        np.testing.assert_array_equal(state.arrays["notes"], after)
        before = after


@pytest.mark.parametrize(
    ("nodes", "names"),
    [
        ([("ScatterND", NOTE[:3], NOTE[3]), ("Add", ["notes.next", "notes.next"], "sums")], {"notes"}),
        ([("ScatterND", NOTE[:3], NOTE[3]), ("Add", ["notes", "notes.next"], "sums")], set()),
        ([("ScatterND", NOTE[:3], "sums"), ("Identity", ["sums"], "notes.next")], set()),
        ([("Relu", ["notes"], "notes.next"), ("Relu", ["notes.next"], "sums")], set()),
        ([("ScatterND", ["x", "places", "notes"], "notes.next"), ("Relu", ["notes.next"], "sums")], set()),
    ],
    ids=["alone", "a second reader", "another output", "another operator", "as updates"],
)
def test_only_the_target_of_a_lone_scatter_is_updated_in_place(tmp_path: Path, nodes, names):
    nodes = [(kind, ["x" if name == "updates" else name for name in inputs], output) for kind, inputs, output in nodes]
    assert find_updatable(onnx.load(saved(tmp_path / "graph.onnx", *nodes).onnx()).graph.node) == names


def test_outputs_stay_as_they_are_when_the_state_moves_on(writing: FileGraph):
    executable = compiled(writing)
    state = executable.new_state({"slots": 2, "length": 4})
    first = executable({"slots": np.array([0]), "x": numbers(1, HEADS, 4, SIZE)}, state)["sums"]
    kept = first.copy()
    executable({"slots": np.array([0]), "x": numbers(1, HEADS, 4, SIZE, seed=1)}, state)
    np.testing.assert_array_equal(first, kept)


def test_rows_are_copied_in_some_columns_all_sources_before_any_target(writing: FileGraph):
    executable = compiled(writing)
    state = executable.new_state({"slots": 4, "length": 6})
    before = numbers(4, HEADS, 6, SIZE)
    executable({"slots": np.arange(4), "x": before}, state)
    executable.copy_rows(state, [0, 1, 2], [1, 2, 0], range(1, 4))
    expected = before.copy()
    expected[[1, 2, 0], :, 1:4] = before[[0, 1, 2], :, 1:4]
    np.testing.assert_array_equal(state.arrays["notes"], expected)


def test_a_larger_state_begins_with_the_smaller_one_and_ends_with_zeros(writing: FileGraph):
    executable = compiled(writing)
    state = executable.new_state({"slots": 2, "length": 3})
    before = numbers(2, HEADS, 3, SIZE)
    executable({"slots": np.arange(2), "x": before}, state)
    grown = executable.resize(state, {"slots": 3, "length": 7})
    expected = np.zeros((3, HEADS, 7, SIZE), np.float32)
    expected[:2, :, :3] = before
    np.testing.assert_array_equal(grown.arrays["notes"], expected)
    sums = executable({"slots": np.array([2]), "x": np.ones((1, HEADS, 7, SIZE), np.float32)}, grown)["sums"]
    assert sums[2].min() == 2


LOOK = ("Gather", ["notes.next", "slots"], "sums")
WRITERS: dict[str, tuple[Sequence[tuple[str, Sequence[str], str]], Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "in place": ([("ScatterND", ["notes", "places", "x"], "notes.next")], lambda before, x: x),
    "by arithmetic": (
        [("Mul", ["notes", "ten"], "tenfold"), ("Add", ["tenfold", "x"], "notes.next")],
        lambda before, x: 10 * before + x,
    ),
    "through": ([("Identity", ["notes"], "notes.next")], lambda before, x: before),
    "through twice": (
        [("Identity", ["notes"], "same"), ("Identity", ["same"], "notes.next")],
        lambda before, x: before,
    ),
}
"""Graphs that treat one state differently, and what becomes of a number of it."""


@pytest.mark.parametrize("order", ["ABABAB", "AABBAABB", "ABBA"])
@pytest.mark.parametrize("kinds", list(itertools.product(WRITERS, repeat=2)), ids=" and ".join)
def test_graphs_that_share_a_state_see_what_the_other_wrote_last(tmp_path: Path, kinds, order):
    graphs = dict(zip("AB", kinds, strict=True))
    executables = {
        name: compiled(saved(tmp_path / f"{name}.onnx", *WRITERS[kind][0], LOOK)) for name, kind in graphs.items()
    }
    state, expected = executables["A"].new_state({"slots": 1, "length": 1}), np.zeros((1, HEADS, 1, SIZE), np.float32)
    for number, name in enumerate(order, start=3):
        x = np.full_like(expected, number)
        expected = WRITERS[graphs[name]][1](expected, x)
        found = executables[name]({"slots": np.array([0]), "x": x}, state)["sums"]
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(state.values["notes"].numpy(), expected)
        np.testing.assert_array_equal(state.arrays["notes"], expected)


def test_a_state_that_is_passed_through_stays_where_it_lies(tmp_path: Path):
    executable = compiled(saved(tmp_path / "graph.onnx", *WRITERS["through"][0], LOOK))
    state = executable.new_state({"slots": 2, "length": 1})
    memory = state.values["notes"].data_ptr()
    executable({"slots": np.array([0]), "x": np.ones((1, HEADS, 1, SIZE), np.float32)}, state)
    assert state.values["notes"].data_ptr() == memory == state.arrays["notes"].ctypes.data


def fastest_ns(executable: StatefulSession, state: object) -> int:
    lasted_ns = []
    for _ in range(7):
        started_ns = time.perf_counter_ns()
        executable({"slots": np.array([0]), "x": np.ones((1, HEADS, 1, SIZE), np.float32)}, state)
        lasted_ns.append(time.perf_counter_ns() - started_ns)
    return min(lasted_ns)


def test_a_call_does_not_copy_the_state_it_writes_a_row_of(tmp_path: Path):
    looking_at_one = ("Gather", ["notes.next", "slots"], "sums")
    graph = saved(tmp_path / "graph.onnx", ("ScatterND", ["notes", "places", "x"], "notes.next"), looking_at_one)
    executable = compiled(graph)
    small, large = (executable.new_state({"slots": slots, "length": 1}) for slots in (1, 4_000_000))
    for array in large.arrays.values():
        array.fill(1)  # 96 MB, which takes tens of milliseconds to copy
    assert fastest_ns(executable, large) < 20 * fastest_ns(executable, small)


@pytest.mark.parametrize("are_weights_beside", [False, True])
def test_int8_quantises_products_with_a_weight_and_leaves_the_state_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, are_weights_beside: bool
):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    product = ("MatMul", ["notes.next", "weight"], "sums")
    graph = saved(tmp_path / "graph.onnx", ("ScatterND", ["notes", "places", "x"], "notes.next"), product)
    if are_weights_beside:
        onnx.save(onnx.load(graph.onnx()), graph.onnx(), save_as_external_data=True, location="w", size_threshold=16)
    executable = compiled(graph, Precision.INT8)
    state = executable.new_state({"slots": 2, "length": 4})
    x = np.random.default_rng(0).uniform(-1, 1, (2, HEADS, 4, SIZE)).astype(np.float32)
    sums = executable({"slots": np.arange(2), "x": x}, state)["sums"]
    np.testing.assert_array_equal(state.arrays["notes"], x)
    assert 1e-5 < np.abs(sums - x @ WEIGHT).max() < 0.05  # a step of 8 bits is 0.008, and three products are summed
    assert state.values["notes"].data_ptr() == state.arrays["notes"].ctypes.data
    assert len(list((tmp_path / "cache" / "quantized").rglob("*.onnx"))) == 1


def test_the_graph_that_copies_rows_on_a_device_copies_them_all_sources_first():
    before = numbers(4, HEADS, 5, SIZE)
    tensors = [onnxruntime.OrtValue.ortvalue_from_numpy(before.copy()) for _ in range(2)]
    copy_whole_rows(Place(provider="CPUExecutionProvider"), tensors, [0, 1, 2], [1, 2, 0])
    for tensor in tensors:
        np.testing.assert_array_equal(tensor.numpy(), before[[2, 0, 1, 3]])


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("check", STATE_CHECKS, ids=lambda check: check.__name__)
def test_state_in_fp16_keeps_the_contract_too(check):
    check(Subject(backend=OnnxRuntime(), precision=Precision.FP16))


@pytest.mark.thorough("exports")
def test_state_is_kept_in_the_precision_of_the_file():
    executable = OnnxRuntime().compile(stepping_graph(), Precision.FP16)
    state = executable.new_state({"slots": 2, "length": 4})
    assert {array.dtype for array in state.arrays.values()} == {np.dtype("float16")}
