"""What can be known of the TensorRT backend without TensorRT: its files, shapes, keys and refusals."""

from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlbench_tensorrt.backend import TensorRt
from mlbench_tensorrt.options import TensorRtOptions
from mlbench_tensorrt.request import EngineRequest, Platform

from mlbench import (
    Decoding,
    Dim,
    EnginePlan,
    GenerationProgram,
    GraphError,
    Model,
    Precision,
    ReplySpec,
    TensorSpec,
    UsageError,
)
from mlbench.conformance import GraphBackendConformance
from mlbench.conformance.known_answers import reference_graphs
from mlbench.conformance.known_state import reading_graph, stepping_graph
from mlbench.execution.engine_choice import engine_of
from mlbench.execution.generation.cache import CacheLimits
from mlbench.settings.layers import fill_template
from mlbench.toolkit import ModuleGraph, ShapeRange, onnx_identity, shape_ranges

ROOT = Path(__file__).parents[3]
BATCH = Dim(name="batch", smallest=1, usual=16, largest=128)
LENGTH = Dim(name="length", smallest=32, usual=64, largest=384)


@pytest.mark.gpu
class TestTensorRt(GraphBackendConformance):
    @pytest.fixture
    def backend(self):
        return TensorRt()


def backend(**options) -> TensorRt:
    return TensorRt().with_options(TensorRtOptions(**options))


def tensor(*shape: int | Dim) -> TensorSpec:
    return TensorSpec(name="x", shape=shape, dtype="float32")


def test_a_profile_prepares_for_the_smallest_the_usual_and_the_largest_shape():
    assert shape_ranges([tensor(BATCH, 3, LENGTH)]) == {"x": ShapeRange((1, 3, 32), (16, 3, 64), (128, 3, 384))}


class Silence(GenerationProgram):
    reply = ReplySpec(dtype="int64", shape=(None,))
    decoding = Decoding(end_tokens=(1,), max_new_tokens=8, longest=32)

    def prompt(self, sample):
        raise AssertionError("nothing is asked")

    def answer(self, tokens):
        raise AssertionError("nothing is answered")


def test_the_core_knows_the_caps():
    graphs = {graph.name: graph for graph in (reading_graph(), stepping_graph())}
    model = Model(name="tokens", graphs=graphs, program=Silence(), weights_fingerprint="none")
    before = CacheLimits.of(model.graphs)
    engine = engine_of(backend(largest={"rows": 4, "span": 20, "length": 24}), model, EnginePlan(batching="in_flight"))
    after = CacheLimits.of(engine._model.graphs)
    assert (before.rows, before.pieces, before.columns) == (33, 33, 32)
    assert (after.rows, after.pieces, after.columns) == (4, 4, 20)


PLATFORM = Platform(
    tensorrt="10.13.0",
    gpu="NVIDIA H200",
    compute_capability=(9, 0),
    multiprocessors=132,
    memory_bytes=150_000_000_000,
)


@pytest.fixture
def request_(tmp_path: Path) -> EngineRequest:
    file = tmp_path / "bert.onnx"
    file.write_bytes(b"graph")
    shapes = {"x": ShapeRange((1,), (2,), (4,))}
    identity = onnx_identity(checkpoint("one"), file)
    return EngineRequest(file=file, identity=identity, ranges=shapes, device=0, optimization_level=3, workspace_mb=0)


def checkpoint(fingerprint: str) -> ModuleGraph:
    return ModuleGraph("reader", inputs=(), outputs=(), build=torch_module, fingerprint=fingerprint)


def torch_module():
    raise AssertionError("a key needs no module")


def test_an_engine_is_built_again_for_whatever_decides_it(request_, tmp_path):
    other = tmp_path / "other.onnx"
    other.write_bytes(b"another graph")
    keys = [
        request_.key(PLATFORM),
        replace(request_, identity=onnx_identity(checkpoint("one"), other)).key(PLATFORM),
        # of equal bytes: the weights lie beside it
        replace(request_, identity=onnx_identity(checkpoint("two"), request_.file)).key(PLATFORM),
        replace(request_, ranges={"x": ShapeRange((1,), (2,), (8,))}).key(PLATFORM),
        replace(request_, optimization_level=5).key(PLATFORM),
        replace(request_, workspace_mb=64).key(PLATFORM),
        *(request_.key(replace(PLATFORM, **{each.name: "other"})) for each in fields(PLATFORM)),
    ]
    assert all(keys.count(key) == 1 for key in keys)


def test_an_engine_serves_an_equal_file_elsewhere_and_an_equal_gpu(request_, tmp_path):
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(request_.file.read_bytes())
    there = replace(request_, file=copy, identity=onnx_identity(checkpoint("one"), copy), device=1)
    assert there.key(PLATFORM) == request_.key(PLATFORM)


def installed(*names: str):
    one = SimpleNamespace(read_text=lambda file: "Version: 10.13\n")
    return lambda asked: {name: one for name in asked if name in names}


def test_the_probe_names_all_that_is_missing(monkeypatch):
    monkeypatch.setattr("mlbench.system.installed.find_distributions", installed("torch", "onnx", "onnxruntime"))
    monkeypatch.setattr(Path, "glob", lambda *_: iter([]))
    probe = TensorRt().probe()
    reason = "no NVIDIA GPU here (no /dev/nvidia0) and tensorrt, onnxscript not installed"
    assert (probe.is_available, probe.reason) == (False, reason)
    assert probe.install == "pip install 'mlbench-inference[workloads,onnxruntime,tensorrt]'"


@pytest.mark.parametrize("quantiser", ["onnxruntime", "onnxruntime-gpu"])
def test_where_everything_is_there_the_probe_offers_every_precision(monkeypatch, quantiser):
    names = ("torch", "onnx", "onnxscript", quantiser, "tensorrt-cu13")
    monkeypatch.setattr("mlbench.system.installed.find_distributions", installed(*names))
    monkeypatch.setattr(Path, "glob", lambda *_: iter([Path("/dev/nvidia0")]))
    probe = TensorRt().probe()
    assert probe.is_available
    assert set(probe.precisions) == set(Precision.KNOWN)


@pytest.mark.parametrize("device", [-1, 99])
def test_a_gpu_that_is_not_there_is_refused_before_anything_is_built(device):
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match=f"backend.device is {device}, and torch"):
        backend(device=device).compile(reference_graphs()[0].graph, Precision.FP32)


@pytest.mark.parametrize(("name", "value"), [("optimization_level", "6"), ("device", "-1"), ("workspace_mb", "-5")])
def test_an_option_out_of_range_is_refused(name, value):
    with pytest.raises(UsageError, match=rf"backend.{name} is '{value}' .*: Input should be"):
        fill_template(TensorRtOptions(), "backend", {f"backend.{name}": value})


def read_by_tensorrt() -> set[str]:
    lines = (ROOT / "tests/data/tensorrt/operators.txt").read_text().splitlines()
    return {line for line in lines if not line.startswith("#")}


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("precision", Precision.KNOWN)
def test_tensorrt_reads_every_operator_of_the_files_it_is_given(precision):
    onnx = pytest.importorskip("onnx")
    graphs = [known.graph for known in reference_graphs()]
    if precision not in (Precision.INT8, Precision.FP8):
        graphs += [reading_graph(), stepping_graph()]
    for graph in graphs:
        nodes = onnx.load(backend().file(graph, precision), load_external_data=False).graph.node
        assert {node.op_type for node in nodes} <= read_by_tensorrt()


@pytest.mark.slow
def test_a_graph_with_state_has_no_ranges_to_quantise_by():
    with pytest.raises(GraphError, match="has state, so ranges are not known beforehand"):
        backend().file(reading_graph(), Precision.FP8)
