import hashlib

import numpy as np
import onnx
import pytest
import torch
from mlbench_unet3d.graphs import (
    Architecture,
    build_network,
    build_segmenter,
    dynamic_onnx_segmenter,
    load_onnx_segmenter,
    random_segmenter,
)
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from mlbench import DataError, GraphError, Precision

SMALL = Architecture(filters=(4, 6, 8), window=16)


def image(batch=1, seed=0):
    return np.random.default_rng(seed).standard_normal((batch, 1, 16, 16, 16), dtype=np.float32)


def run(module, images):
    with torch.inference_mode():
        return module(torch.from_numpy(images)).numpy()


def checksum(path, algorithm):
    return hashlib.new(algorithm, path.read_bytes()).hexdigest()


class TestOfficialNetwork:
    """Counts and names as the official checkpoint has them."""

    @pytest.fixture
    def state(self):
        with torch.device("meta"):
            return build_network(Architecture()).state_dict()

    def test_it_has_31_million_parameters_in_78_tensors(self, state):
        assert sum(tensor.numel() for tensor in state.values()) == 31_190_243
        assert len(state) == 78

    @pytest.mark.parametrize(
        ("name", "shape"),
        [
            ("input_block.conv1.0.weight", (32, 1, 3, 3, 3)),
            ("input_block.conv2.1.bias", (32,)),
            ("downsample.0.conv1.0.weight", (64, 32, 3, 3, 3)),
            ("downsample.3.conv2.1.weight", (320,)),
            ("bottleneck.conv1.0.weight", (320, 320, 3, 3, 3)),
            ("upsample.0.upsample_conv.0.weight", (320, 320, 2, 2, 2)),
            ("upsample.1.upsample_conv.0.weight", (320, 256, 2, 2, 2)),
            ("upsample.4.conv1.0.weight", (32, 64, 3, 3, 3)),
            ("upsample.4.upsample_conv.0.bias", (32,)),
            ("output.conv.0.weight", (3, 32, 1, 1, 1)),
            ("output.conv.0.bias", (3,)),
        ],
    )
    def test_its_tensors_have_the_official_names_and_shapes(self, state, name, shape):
        assert tuple(state[name].shape) == shape


def described(state, images):
    """The network as its description says it, in plain functions: strides on the way down, upsampled before skipped."""

    def block(x, name, stride=1):
        for part, step in (("conv1", stride), ("conv2", 1)):
            x = functional.conv3d(x, state[f"{name}.{part}.0.weight"], stride=step, padding=1)
            x = functional.instance_norm(
                x, weight=state[f"{name}.{part}.1.weight"], bias=state[f"{name}.{part}.1.bias"], eps=1e-5
            )
            x = x.relu()
        return x

    x = block(torch.from_numpy(images), "input_block")
    skips = [x]
    for level in range(len(SMALL.filters) - 1):
        x = block(x, f"downsample.{level}", stride=2)
        skips.append(x)
    x = block(x, "bottleneck", stride=2)
    for level, skip in enumerate(reversed(skips)):
        up = f"upsample.{level}"
        x = functional.conv_transpose3d(
            x, state[f"{up}.upsample_conv.0.weight"], state[f"{up}.upsample_conv.0.bias"], stride=2
        )
        x = block(torch.cat([x, skip], dim=1), up)
    return functional.conv3d(x, state["output.conv.0.weight"], state["output.conv.0.bias"]).numpy()


def with_lively_norms(module):
    """Norms are 1 and 0 when freshly made, and would not show a mistake."""
    generator = torch.Generator().manual_seed(3)
    for part in module.modules():
        if isinstance(part, nn.InstanceNorm3d):
            part.weight.data.uniform_(0.5, 1.5, generator=generator)
            part.bias.data.uniform_(-0.5, 0.5, generator=generator)
    return module


@pytest.mark.parametrize("batch", [1, 2])
def test_the_network_computes_what_its_description_says(batch):
    module = with_lively_norms(random_segmenter(SMALL, None).module())
    logits = run(module, image(batch))
    assert logits.shape == (batch, 3, 16, 16, 16)
    with torch.inference_mode():
        np.testing.assert_allclose(logits, described(module.state_dict(), image(batch)), atol=2e-5)


def test_windows_of_a_call_do_not_touch_each_other():
    module = random_segmenter(SMALL, None).module()
    together = run(module, image(2))
    for place in range(2):
        np.testing.assert_allclose(run(module, image(2)[place : place + 1])[0], together[place], atol=1e-5)


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("batch", [1, 3])
def test_the_onnx_file_equals_the_module(batch):
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = random_segmenter(SMALL, None)
    session = onnxruntime.InferenceSession(graph.onnx(), providers=["CPUExecutionProvider"])
    (found,) = session.run(["logits"], {"image": image(batch)})
    np.testing.assert_allclose(found, run(graph.module(), image(batch)), atol=1e-4)


@pytest.mark.thorough("exports")
def test_the_onnx_file_has_one_operator_for_each_norm():
    operators = [node.op_type for node in onnx.load(random_segmenter(SMALL, None).onnx()).graph.node]
    assert operators.count("InstanceNormalization") == operators.count("Relu") == 14
    assert set(operators) == {"Conv", "ConvTranspose", "Concat", "InstanceNormalization", "Relu"}


def test_a_graph_says_what_goes_in_and_what_comes_out():
    graph = random_segmenter(SMALL, None)
    (images,), (logits,) = graph.inputs, graph.outputs
    assert (graph.name, images.name, images.dtype, images.layout) == ("segmenter", "image", "float32", "NCDHW")
    assert (images.shape[1:], logits.shape[1:]) == ((1, 16, 16, 16), (3, 16, 16, 16))
    assert images.shape[0] is logits.shape[0]
    assert graph.tolerance(Precision.FP32).absolute == 1e-4


def test_graphs_of_other_weights_or_dimensions_have_other_fingerprints(tmp_path):
    graphs = [
        random_segmenter(SMALL, None),
        random_segmenter(Architecture(filters=SMALL.filters, window=32), None),
        random_segmenter(Architecture(filters=(4, 6, 9), window=16), None),
        build_segmenter(SMALL, tmp_path, None, sha256="11"),
        build_segmenter(SMALL, tmp_path, None, sha256="22"),
    ]
    assert len({graph.fingerprint for graph in graphs}) == 5


class TestWeightsFiles:
    """The forms in which weights come."""

    @pytest.fixture
    def state(self):
        return with_lively_norms(random_segmenter(SMALL, None).module()).state_dict()

    def loaded(self, path, **checksums):
        return build_segmenter(SMALL, path, None, **checksums).module().state_dict()

    def test_safetensors_of_half_precision_become_fp32(self, tmp_path, state):
        path = tmp_path / "weights.safetensors"
        save_file({name: tensor.half() for name, tensor in state.items()}, path)
        loaded = self.loaded(path, sha256=checksum(path, "sha256"))
        assert loaded.keys() == state.keys()
        assert all(torch.equal(loaded[name], state[name].half().float()) for name in state)

    def test_the_official_checkpoint_keeps_the_best_weights_among_others(self, tmp_path, state):
        path = tmp_path / "3dunet_kits19_pytorch_checkpoint.pth"
        other = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
        torch.save({"epoch": 7, "model_state_dict": other, "best_model_state_dict": state}, path)
        loaded = self.loaded(path, md5=checksum(path, "md5"))
        assert all(torch.equal(loaded[name], state[name]) for name in state)

    @pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning", "ignore::torch.jit.TracerWarning")
    def test_the_official_torchscript_file_gives_its_weights(self, tmp_path, state):
        path = tmp_path / "3dunet_kits19_pytorch.ptc"
        network = build_network(SMALL)
        network.load_state_dict(state)
        with torch.inference_mode():
            torch.jit.save(torch.jit.trace(network.eval(), torch.from_numpy(image()), check_trace=False), path)
        loaded = self.loaded(path, md5=checksum(path, "md5"))
        assert all(torch.equal(loaded[name], state[name]) for name in state)

    def test_torchscript_with_another_checksum_is_refused_before_torch_sees_it(self, tmp_path, monkeypatch):
        path = tmp_path / "3dunet_kits19_pytorch.ptc"
        path.write_bytes(b"code of somebody")
        monkeypatch.setattr(torch.jit, "load", lambda *_, **__: pytest.fail("it was loaded"))
        with pytest.raises(DataError, match=r"corrupt or another version: .*3dunet_kits19_pytorch\.ptc"):
            self.loaded(path, md5="2251109371f408c9f10a4320ffdcaef8")

    @pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
    @pytest.mark.parametrize("name", ["weights.ptc", "weights.pth"])
    def test_a_file_of_another_kind_is_named(self, tmp_path, name):
        path = tmp_path / name
        path.write_bytes(b"no weights")
        with pytest.raises(DataError, match=f"weights file (cannot be read|is not a TorchScript archive): .*{name}"):
            self.loaded(path, md5=checksum(path, "md5"))

    def test_a_checkpoint_without_the_best_weights_is_named(self, tmp_path, state):
        path = tmp_path / "weights.pth"
        torch.save({"state_dict": state}, path)
        with pytest.raises(DataError, match=r"weights\.pth: 'best_model_state_dict'"):
            self.loaded(path, md5=checksum(path, "md5"))

    def test_a_checkpoint_that_would_run_code_is_refused(self, tmp_path):
        path = tmp_path / "weights.pth"
        torch.save({"best_model_state_dict": checksum}, path)
        with pytest.raises(DataError, match=r"weights file cannot be read: .*weights\.pth"):
            self.loaded(path, md5=checksum(path, "md5"))

    def test_a_missing_tensor_and_one_of_another_shape_are_named(self, tmp_path, state):
        path = tmp_path / "weights.safetensors"
        save_file({name: tensor for name, tensor in state.items() if name != "output.conv.0.bias"}, path)
        with pytest.raises(DataError, match=r"lacks output\.conv\.0\.bias"):
            self.loaded(path, sha256=checksum(path, "sha256"))
        save_file(state | {"output.conv.0.bias": torch.zeros(4)}, path)
        with pytest.raises(DataError, match=r"output\.conv\.0\.bias is \(4,\), not \(3,\)"):
            self.loaded(path, sha256=checksum(path, "sha256"))


class TestOfficialOnnx:
    """The two files that MLCommons offers, handed out as they are."""

    @pytest.fixture
    def file(self, tmp_path):
        path = tmp_path / "3dunet_kits19_128x128x128.onnx"
        path.write_bytes(b"graph")
        return path

    def test_the_file_for_many_windows_is_checked(self, file):
        graph = dynamic_onnx_segmenter(file, None, md5=checksum(file, "md5"))
        assert graph.onnx() == file
        assert [(spec.name, spec.shape[1:]) for spec in (*graph.inputs, *graph.outputs)] == [
            ("input", (1, 128, 128, 128)),
            ("output", (3, 128, 128, 128)),
        ]
        assert graph.inputs[0].shape[0].largest > 1
        with pytest.raises(DataError, match="corrupt or another version"):
            dynamic_onnx_segmenter(file, None, md5="82f0618fde78f9839e7c712274019b4a").onnx()

    def test_the_file_for_one_window_is_recognised_by_what_it_holds(self, file):
        graph = load_onnx_segmenter(file, None)
        assert graph.onnx() == file
        assert (graph.inputs[0].shape[0], graph.outputs[0].shape[0]) == (1, 1)
        assert graph.fingerprint == checksum(file, "md5")
        with pytest.raises(DataError, match=r"weights file not found: .*nowhere\.onnx"):
            load_onnx_segmenter(file.with_name("nowhere.onnx"), None)

    def test_it_has_no_torch_module(self, file):
        with pytest.raises(GraphError, match="has no torch module"):
            load_onnx_segmenter(file, None).module()
