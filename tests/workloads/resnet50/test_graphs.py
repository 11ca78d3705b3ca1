import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from mlbench_resnet50.graphs import (
    Architecture,
    build_classifier,
    build_network,
    official_onnx_classifier,
    random_classifier,
)

from mlbench import DataError, GraphError

SMALL = Architecture(planes=8, classes=20, image_size=64)


def no_calibration() -> Iterator[Mapping[str, np.ndarray]]:
    return iter(())


@pytest.mark.slow
def test_with_64_planes_it_is_torchvisions_resnet50():
    from torchvision.models import resnet50

    network = build_network(Architecture(planes=64, classes=1000, image_size=224)).eval()
    assert sum(parameter.numel() for parameter in network.parameters()) == 25_557_032
    assert sum(buffer.numel() for buffer in network.buffers()) == 53_173
    assert len(network.state_dict()) == 320

    torchvisions = resnet50(weights=None).eval()
    torchvisions.load_state_dict(network.state_dict())
    image = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32))
    with torch.inference_mode():
        torch.testing.assert_close(network(image), torchvisions(image))


def test_the_small_network_has_the_same_layers_with_an_eighth_of_the_channels():
    state = build_network(SMALL).state_dict()
    assert len(state) == 320
    assert state["layer4.2.conv3.weight"].shape == (256, 64, 1, 1)  # official: (2048, 512, 1, 1)
    assert state["fc.weight"].shape == (20, 256)


def test_the_stride_of_2_sits_in_the_3x3_convolution_which_makes_it_v1_5():
    network = build_network(SMALL)
    block = network.get_submodule("layer2.0")
    assert block.conv1.stride == (1, 1)
    assert block.conv2.stride == (2, 2)


def test_a_graph_says_what_goes_in_and_what_comes_out():
    graph = random_classifier(SMALL, no_calibration)
    (image,), (logits,) = graph.inputs, graph.outputs
    assert (graph.name, image.name, image.dtype, image.layout) == ("classifier", "image", "float32", "NCHW")
    assert (image.shape[1:], logits.shape[1:]) == ((3, 64, 64), (20,))
    assert image.shape[0] is logits.shape[0]
    assert graph.module()(torch.zeros(2, 3, 64, 64)).shape == (2, 20)


def test_graphs_of_other_weights_or_dimensions_have_other_fingerprints():
    other_size = Architecture(planes=8, classes=20, image_size=72)
    graphs = [
        random_classifier(SMALL, no_calibration),
        random_classifier(other_size, no_calibration),
        build_classifier(SMALL, Path("a"), no_calibration, sha256="11"),
        build_classifier(SMALL, Path("a"), no_calibration, sha256="22"),
    ]
    assert len({graph.fingerprint for graph in graphs}) == 4


def test_weights_with_another_checksum_are_refused(tmp_path: Path):
    file = tmp_path / "resnet50-19c8e357.pth"
    file.write_bytes(b"other weights")
    graph = build_classifier(SMALL, file, no_calibration, md5="9e9c86b324d80e65229fab49b8d9a8e8")
    with pytest.raises(DataError, match=r"corrupt or another version: .*resnet50-19c8e357\.pth"):
        graph.module()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fc.weight_scale": torch.ones(1)}, "Unexpected.*weight_scale"),
        ({"fc.bias": torch.ones(3)}, "fc.bias"),
    ],
)
def test_weights_of_another_form_are_refused_by_the_names_of_their_tensors(tmp_path: Path, change, said):
    state = random_classifier(SMALL, no_calibration).module().state_dict()
    torch.save(dict(state) | change, tmp_path / "weights.pth")
    with pytest.raises(DataError, match=rf"weights file is of another network: .*{said}.*It may be quantised"):
        build_classifier(SMALL, tmp_path / "weights.pth", no_calibration).module()


def test_the_official_onnx_file_is_handed_out_as_it_is(tmp_path: Path):
    file = tmp_path / "resnet50_v1.onnx"
    file.write_bytes(b"graph")
    assert official_onnx_classifier(file, no_calibration, md5=hashlib.md5(b"graph").hexdigest()).onnx() == file
    with pytest.raises(DataError, match="corrupt or another version"):
        official_onnx_classifier(file, no_calibration, md5="f6a4da60cd5f084d97efc2c1ddb10beb").onnx()


def test_the_official_onnx_file_has_no_torch_module(tmp_path: Path):
    graph = official_onnx_classifier(tmp_path / "resnet50_v1.onnx", no_calibration, md5="")
    with pytest.raises(GraphError, match="no torch module"):
        graph.module()
