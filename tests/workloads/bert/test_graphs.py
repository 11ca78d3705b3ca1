import hashlib

import numpy as np
import pytest
import torch
from mlbench_bert.graphs import Architecture, build_network, build_reader, official_onnx_reader, random_reader
from safetensors.torch import save_file

from mlbench import DataError, GraphError, Precision

SMALL = Architecture(vocabulary=50, hidden=32, layers=2, heads=2, feed_forward=64, positions=40)


def batch(rows, tokens, *, seed=0):
    """Random inputs, rows of unequal length."""
    rng = np.random.default_rng(seed)
    lengths = np.linspace(1, tokens, rows).astype(int)[:, None]
    positions = np.arange(tokens)
    return {
        "input_ids": rng.integers(0, 50, (rows, tokens)),
        "input_mask": (positions < lengths).astype(np.int64),
        "segment_ids": np.broadcast_to(positions > tokens // 3, (rows, tokens)).astype(np.int64),
    }


def run(module, inputs):
    with torch.inference_mode():
        return [output.numpy() for output in module(*map(torch.from_numpy, inputs.values()))]


def saved(tmp_path, state):
    path = tmp_path / "weights.safetensors"
    save_file(dict(state), path)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_default_architecture_is_bert_large():
    with torch.device("meta"):
        network = build_network(Architecture())
    assert sum(parameter.numel() for parameter in network.parameters()) == 334_094_338
    assert network.qa_outputs.weight.shape == (2, 1024)
    assert network.config.layer_norm_eps == 1e-12
    assert network.config.hidden_act == "gelu"


def test_the_module_equals_hugging_faces_network_on_all_tokens_that_are_not_padding():
    network = random_reader(SMALL, 40, None).module().network
    inputs = batch(3, 20)
    starts, ends = run(random_reader(SMALL, 40, None).module(), inputs)
    with torch.inference_mode():
        wanted = network(
            input_ids=torch.from_numpy(inputs["input_ids"]),
            attention_mask=torch.from_numpy(inputs["input_mask"]),
            token_type_ids=torch.from_numpy(inputs["segment_ids"]),
        )
    tokens = inputs["input_mask"] == 1
    np.testing.assert_allclose(starts[tokens], wanted.start_logits.numpy()[tokens], atol=1e-5)
    np.testing.assert_allclose(ends[tokens], wanted.end_logits.numpy()[tokens], atol=1e-5)


def test_padding_does_not_change_a_logit():
    module = random_reader(SMALL, 40, None).module()
    inputs = batch(1, 10)
    padded = {name: np.pad(array, [(0, 0), (0, 7)]) for name, array in inputs.items()}
    for alone, beside_padding in zip(run(module, inputs), run(module, padded), strict=True):
        np.testing.assert_allclose(beside_padding[:, :10], alone, atol=1e-5)


@pytest.mark.thorough("exports")
@pytest.mark.parametrize(("rows", "tokens"), [(1, 7), (5, 40)])
def test_the_onnx_file_equals_the_module_at_every_size(rows, tokens):
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = random_reader(SMALL, 40, None)
    session = onnxruntime.InferenceSession(graph.onnx(), providers=["CPUExecutionProvider"])
    assert [value.name for value in session.get_inputs()] == ["input_ids", "input_mask", "segment_ids"]
    found = session.run(["start_logits", "end_logits"], batch(rows, tokens))
    for one, other in zip(found, run(graph.module(), batch(rows, tokens)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_a_graph_says_what_goes_in_and_what_comes_out():
    graph = random_reader(SMALL, 40, None)
    assert graph.name == "reader"
    assert [(spec.name, spec.dtype) for spec in graph.inputs] == [
        ("input_ids", "int64"),
        ("input_mask", "int64"),
        ("segment_ids", "int64"),
    ]
    assert [(spec.name, spec.dtype) for spec in graph.outputs] == [
        ("start_logits", "float32"),
        ("end_logits", "float32"),
    ]
    for spec in (*graph.inputs, *graph.outputs):
        assert [(dim.name, dim.largest) for dim in spec.shape[1:]] == [("tokens", 40)]
    assert graph.tolerance(Precision.FP32).absolute == 1e-4


class TestWeightsFile:
    def module(self, tmp_path, state):
        path, sha256 = saved(tmp_path, state)
        return build_reader(SMALL, 40, path, None, sha256=sha256).module()

    def test_its_tensors_are_loaded_and_a_pooler_is_passed_over(self, tmp_path):
        state = build_network(SMALL).state_dict()
        loaded = self.module(tmp_path, state | {"bert.pooler.dense.weight": torch.zeros(32, 32)}).network.state_dict()
        assert loaded.keys() == state.keys()
        assert all(torch.equal(loaded[name], state[name]) for name in state)

    def test_the_loaded_network_answers_as_the_one_that_was_saved(self, tmp_path):
        saved_network = random_reader(SMALL, 40, None).module()
        loaded = self.module(tmp_path, saved_network.network.state_dict())
        for one, other in zip(run(loaded, batch(2, 9)), run(saved_network, batch(2, 9)), strict=True):
            np.testing.assert_array_equal(one, other)

    def test_the_scale_of_a_quantised_weight_is_not_passed_over(self, tmp_path):
        state = build_network(SMALL).state_dict()
        scale = {"bert.encoder.layer.0.output.dense.weight_scale": torch.ones(1)}
        with pytest.raises(DataError, match=r"has unused tensors: .*weight_scale \(1 in all\)\. It may be quantised"):
            self.module(tmp_path, state | scale)

    def test_a_missing_tensor_is_named(self, tmp_path):
        state = build_network(SMALL).state_dict()
        del state["qa_outputs.bias"]
        with pytest.raises(DataError, match=r"lacks qa_outputs\.bias: .*weights\.safetensors"):
            self.module(tmp_path, state)

    def test_a_tensor_of_another_shape_is_named(self, tmp_path):
        state = build_network(SMALL).state_dict() | {"qa_outputs.bias": torch.zeros(3)}
        with pytest.raises(DataError, match=r"qa_outputs\.bias is \(3,\), not \(2,\)"):
            self.module(tmp_path, state)

    def test_another_checksum_is_refused(self, tmp_path):
        path, _ = saved(tmp_path, build_network(SMALL).state_dict())
        with pytest.raises(DataError, match="corrupt or another version"):
            build_reader(SMALL, 40, path, None, sha256="0" * 64).module()


class TestOfficialOnnx:
    def test_it_is_the_users_file_under_its_own_names(self, tmp_path):
        path = tmp_path / "model.onnx"
        path.write_bytes(b"any")
        graph = official_onnx_reader(path, None, md5=hashlib.md5(b"any").hexdigest())
        assert graph.onnx() == path
        assert [spec.name for spec in graph.outputs] == ["output_start_logits", "output_end_logits"]
        assert graph.inputs[0].shape[1] == 384

    def test_another_file_is_refused(self, tmp_path):
        path = tmp_path / "model.onnx"
        path.write_bytes(b"other")
        with pytest.raises(DataError, match="corrupt or another version"):
            official_onnx_reader(path, None, md5=hashlib.md5(b"any").hexdigest()).onnx()

    def test_it_has_no_torch_module(self, tmp_path):
        with pytest.raises(GraphError, match="has no torch module"):
            official_onnx_reader(tmp_path / "model.onnx", None, md5="").module()
