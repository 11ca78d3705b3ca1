import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from mlbench_openvino.backend import OpenVino

from mlbench import Dim, GraphError, Precision, TensorSpec, UsageError

onnx = pytest.importorskip("onnx")
openvino = pytest.importorskip("openvino")

from mlbench_openvino.compiled_graph import CompiledGraph, DeviceSettings, with_embedding_bags  # noqa: E402 - it imports OpenVINO

ON_CPU = DeviceSettings("CPU", "f32", threads=1)
ROWS = Dim(name="rows", smallest=1, usual=8, largest=64)


class CountingCore:
    """OpenVINO's core, which notes the shapes of the models that it compiles."""

    def __init__(self) -> None:
        self._core = openvino.Core()
        self.read_model = self._core.read_model
        self.rows: list[int] = []

    def compile_model(self, model, device, settings):
        first = model.inputs[0].partial_shape[0]
        self.rows.append(-1 if first.is_dynamic else first.get_length())
        return self._core.compile_model(model, device, settings)


def write(path: Path, node: str, *, rank: int = 2) -> Path:
    """Write a graph of one operator, (rows, 3, ...) -> any."""
    given = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["rows", *[3] * (rank - 1)])
    result = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", *[None] * (rank - 1)])
    weights = [onnx.numpy_helper.from_array(np.eye(3, dtype=np.float32) * 2, "w")] if node == "MatMul" else []
    inputs = ["x", *[weight.name for weight in weights]]
    graph = onnx.helper.make_graph([onnx.helper.make_node(node, inputs, ["y"])], node, [given], [result], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def graph_of(file: Path, *, sizes: tuple[int | Dim, ...] = (3,)) -> SimpleNamespace:
    """Return a graph without state."""
    x, y = (TensorSpec(name=name, shape=(ROWS, *sizes), dtype="float32") for name in "xy")
    return SimpleNamespace(name=file.stem, inputs=(x,), outputs=(y,), state=(), onnx=lambda: file)


@pytest.fixture
def doubling(tmp_path):
    """Return a function that doubles rows, compiled, and the core that notes what it compiled."""

    def compiled(graph=None):
        core, file = CountingCore(), write(tmp_path / "doubling.onnx", "MatMul")
        return CompiledGraph(graph or graph_of(file), file, core, ON_CPU), core

    return compiled


def test_powers_of_two_and_larger_batches_get_a_model_and_smaller_ones_share_the_open_one(doubling):
    compute, core = doubling()
    for rows in (1, 2, 4, 8, 24, 3, 9, 23, 16, 24, 8, 3):
        given = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(compute({"x": given})["y"], given * 2)
    assert core.rows == [-1, 1, 2, 4, 8, 24, 16]


def test_the_number_of_models_is_limited(doubling):
    compute, core = doubling()
    for rows in range(1, 40):  # each larger than any before
        given = np.full((rows, 3), rows, np.float32)
        np.testing.assert_array_equal(compute({"x": given})["y"], given * 2)
    assert core.rows == [-1, *range(1, 13)]


def test_weights_of_all_models_together_are_limited(doubling, monkeypatch):
    monkeypatch.setattr("mlbench_openvino.compiled_graph.MOST_WEIGHT_BYTES", 3 * 3 * 4 * 2 + 1)
    compute, core = doubling()
    for rows in (1, 2, 4, 8):
        compute({"x": np.ones((rows, 3), np.float32)})
    assert core.rows == [-1, 1, 2]


def test_a_graph_with_another_open_dimension_has_one_model(tmp_path):
    file, length = write(tmp_path / "open.onnx", "Relu"), Dim(name="length", smallest=1, usual=3, largest=9)
    core = CountingCore()
    compute = CompiledGraph(graph_of(file, sizes=(length,)), file, core, ON_CPU)
    for rows in (1, 2, 4):
        np.testing.assert_array_equal(compute({"x": -np.ones((rows, 3), np.float32)})["y"], np.zeros((rows, 3)))
    assert core.rows == [-1]


@pytest.mark.parametrize("rows", [4, 3], ids=["in its own memory", "copied"])
def test_outputs_outlive_later_calls_and_inputs_may_be_dropped(doubling, rows):
    compute, _ = doubling()
    compute({"x": np.ones((4, 3), np.float32)})
    found = [compute({"x": np.full((rows, 3), number, np.float32)})["y"] for number in range(40)]
    for number, each in enumerate(found):
        np.testing.assert_array_equal(each, np.full((rows, 3), 2 * number))


def test_a_graph_that_openvino_cannot_compile_is_refused_in_a_line_that_names_the_operator(tmp_path):
    with pytest.raises(GraphError) as caught:
        OpenVino().compile(graph_of(write(tmp_path / "determinant.onnx", "Det", rank=3)), Precision.FP32)
    assert re.fullmatch(r"OpenVINO cannot compile determinant: .* operations: Det(-18)?\.", str(caught.value))


@pytest.mark.parametrize("device", ["ABACUS", "cpu", "CPU.7", ""])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(tmp_path, device):
    backend = OpenVino().with_options(replace(OpenVino.options, device=device))
    with pytest.raises(UsageError, match=re.escape(f"backend.device is {device!r}")) as caught:
        backend.compile(graph_of(write(tmp_path / "relu.onnx", "Relu")), Precision.FP32)
    assert "CPU" in caught.value.hint


def test_bf16_is_computed_or_refused_and_never_replaced_by_fp32(tmp_path):
    backend = OpenVino()
    graph = graph_of(write(tmp_path / "product.onnx", "MatMul"))
    if Precision.BF16 in backend.probe().precisions:
        found = backend.compile(graph, Precision.BF16)
        assert found.computes_in == "bf16"
        return
    with pytest.raises(UsageError, match=r"^OpenVINO computes in f32 on CPU, not in bf16\. "):
        backend.compile(graph, Precision.BF16)


def test_the_record_names_the_device_and_the_threads():
    facts = OpenVino().with_options(replace(OpenVino.options, threads=3)).observe()
    assert facts.device == "cpu"
    assert facts.extra["threads"] == 3
    assert facts.extra["openvino"] == openvino.get_version()
    assert facts.extra["openvino_device"] == openvino.Core().get_property("CPU", "FULL_DEVICE_NAME")


def sum_of_rows(path: Path, *, axis: int = 0, is_kept: int = 0) -> Path:
    """Write the sum of the rows of a table that indices name, (rows, 5) -> (rows, 4), as torch exports it."""
    helper, onnx_types = onnx.helper, onnx.TensorProto
    table = np.random.default_rng(0).standard_normal((7, 4), dtype=np.float32)
    constants = [onnx.numpy_helper.from_array(table, "table"), onnx.numpy_helper.from_array(np.array([axis]), "axes")]
    nodes = [
        helper.make_node("Transpose", ["x"], ["swapped"], perm=[1, 0]),
        helper.make_node("Gather", ["table", "swapped"], ["found"], axis=0),
        helper.make_node("ReduceSum", ["found", "axes"], ["y"], keepdims=is_kept),
    ]
    given = helper.make_tensor_value_info("x", onnx_types.INT64, ["rows", 5])
    result = helper.make_tensor_value_info("y", onnx_types.FLOAT, None)
    graph = helper.make_graph(nodes, "sums", [given], [result], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def test_the_sum_of_a_tables_rows_becomes_one_operator_with_the_same_bits(tmp_path):
    file = sum_of_rows(tmp_path / "sums.onnx")
    indices = np.random.default_rng(1).integers(0, 7, (6, 5))
    plain = openvino.Core().read_model(file)
    bags, has_bags = with_embedding_bags(openvino.Core().read_model(file))
    assert has_bags
    assert [each.get_type_name() for each in bags.get_ops()].count("EmbeddingBagPacked") == 1
    one, other = (openvino.compile_model(model, "CPU")(indices)[0] for model in (plain, bags))
    assert one.shape == (6, 4)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("changes", [{"axis": 1}, {"is_kept": 1}])
def test_other_sums_stay_as_they_are(tmp_path, changes):
    model, has_bags = with_embedding_bags(openvino.Core().read_model(sum_of_rows(tmp_path / "sums.onnx", **changes)))
    assert not has_bags
    assert "EmbeddingBagPacked" not in [each.get_type_name() for each in model.get_ops()]


def test_indices_that_count_from_the_end_are_taken_as_onnx_has_them(tmp_path):
    """An embedding bag refuses them; the table is that of `sum_of_rows`."""
    graph = graph_of(sum_of_rows(tmp_path / "sums.onnx"), sizes=(5,))
    compiled = CompiledGraph(graph, graph.onnx(), openvino.Core(), ON_CPU)
    table = np.random.default_rng(0).standard_normal((7, 4), dtype=np.float32)
    for indices in ([[0, 1, 2, 3, 4]], [[0, 1, 2, 3, -1]], [[5, 1, 2, 3, 4]]):
        found = compiled({"x": np.array(indices)})["y"]
        np.testing.assert_allclose(found, table[indices].sum(axis=1), rtol=1e-6)
