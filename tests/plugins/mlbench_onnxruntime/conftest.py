"""A product of two matrices as an ONNX file, in a process in which no provider was measured."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlbench_onnxruntime.providers import fp32_bits
from product_graph import WEIGHT


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measure providers anew, and leave the environment as it was."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "")
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE")
    fp32_bits.cache_clear()
    yield
    fp32_bits.cache_clear()


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that computes y = x @ WEIGHT."""
    import onnx

    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", size])
        for name, size in (("x", 4), ("y", 3))
    )
    graph = onnx.helper.make_graph([node], "product", [x], [y], [onnx.numpy_helper.from_array(WEIGHT, "w")])
    opset = onnx.helper.make_opsetid("", 18)
    path = tmp_path / "product.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10), path)
    return path
