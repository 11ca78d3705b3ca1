import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from mlbench_retinanet.full_profile import ARCHITECTURE as OFFICIAL
from mlbench_retinanet.graphs import build_detector, build_network, random_detector


def doubled(place):
    """Where a convolution is when it and its ReLU lie side by side."""
    return f"head.conv.{2 * int(place[1])}."


def no_calibration():
    return iter(())


def images(count, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).random((count, 3, 64, 64), dtype=np.float32))


@pytest.mark.slow
def test_with_the_official_dimensions_it_has_the_official_parameters_and_names():
    network = build_network(OFFICIAL)
    assert sum(parameter.numel() for parameter in network.parameters()) == 37_060_652
    state = network.state_dict()
    assert sum(buffer.numel() for name, buffer in network.named_buffers() if name in state) == 136_448
    assert state["backbone.body.layer1.0.conv2.weight"].shape == (128, 4, 3, 3)  # 32 groups of 4
    assert state["backbone.fpn.extra_blocks.p7.weight"].shape == (256, 256, 3, 3)
    assert state["head.classification_head.cls_logits.weight"].shape == (9 * 264, 256, 3, 3)
    assert state["head.regression_head.bbox_reg.weight"].shape == (9 * 4, 256, 3, 3)


@pytest.mark.slow
def test_the_official_body_is_torchvisions_resnext50_32x4d():
    from torchvision.models import resnext50_32x4d
    from torchvision.ops.misc import FrozenBatchNorm2d

    body = build_network(OFFICIAL).get_submodule("backbone.body")
    torchvisions = resnext50_32x4d(weights=None, norm_layer=FrozenBatchNorm2d)
    missing, unexpected = torchvisions.load_state_dict(body.state_dict(), strict=False)
    assert (missing, unexpected) == (["fc.weight", "fc.bias"], [])
    x = images(1)
    with torch.inference_mode():
        parts = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3")
        expected = torch.nn.Sequential(*map(torchvisions.get_submodule, parts))(x)
        torch.testing.assert_close(body(x)["1"], expected)


def test_with_a_state_dict_of_torchvisions_retinanet_it_gives_the_same_outputs(tiny):
    from torchvision.models.detection import RetinaNet

    network = build_network(tiny).eval()
    with torch.no_grad():
        generator = torch.Generator().manual_seed(0)
        for parameter in network.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    whole = RetinaNet(build_network(tiny).backbone, tiny.classes, min_size=64, max_size=64).eval()
    whole.load_state_dict(network.state_dict())  # names and shapes are the same
    with torch.inference_mode():
        batch, _ = whole.transform(list(images(2)))  # mean and deviation are torchvision's own
        expected = whole.head(list(whole.backbone(batch.tensors).values()))
        logits, offsets = network(images(2))
    assert logits.std() > 0.1
    torch.testing.assert_close(logits, expected["cls_logits"])
    torch.testing.assert_close(offsets, expected["bbox_regression"])


def test_the_older_names_of_the_official_checkpoints_are_understood(tiny):
    state = build_network(tiny).state_dict()
    older = {
        re.sub(r"(blocks\.\d)\.0\.", r"\1.", re.sub(r"head\.conv\.(\d)\.0\.", doubled, name)): tensor
        for name, tensor in state.items()
    }
    assert "head.classification_head.conv.6.bias" in older
    assert "backbone.fpn.inner_blocks.2.weight" in older
    network = build_detector(tiny, lambda: older, no_calibration, fingerprint="").module()
    assert all(torch.equal(tensor, state[name]) for name, tensor in network.state_dict().items())


def test_the_sixth_level_is_made_from_the_fifth_of_the_pyramid_and_not_of_the_body(tiny):
    state = build_network(tiny).state_dict()
    assert state["backbone.body.layer4.0.conv3.weight"].shape[0] == 128
    assert state["backbone.fpn.extra_blocks.p6.weight"].shape == (8, 8, 3, 3)


def test_a_batch_norm_only_applies_what_was_learnt(tiny):
    network = build_network(tiny)
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.train()(images(2))
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())


def test_a_graph_says_what_goes_in_and_what_comes_out(tiny):
    graph = random_detector(tiny, no_calibration)
    (image,), (logits, offsets) = graph.inputs, graph.outputs
    assert (graph.name, image.name, image.dtype, image.layout) == ("detector", "images", "float32", "NCHW")
    anchors = 9 * (64 + 16 + 4 + 1 + 1)
    assert image.shape[1:] == (3, 64, 64)
    assert (logits.name, logits.shape[1:]) == ("logits", (anchors, 3))
    assert (offsets.name, offsets.shape[1:]) == ("offsets", (anchors, 4))
    assert image.shape[0] is logits.shape[0] is offsets.shape[0]
    with torch.inference_mode():
        outputs = graph.module()(images(2))
    assert [tuple(output.shape) for output in outputs] == [(2, anchors, 3), (2, anchors, 4)]


def test_an_image_gives_the_same_alone_and_in_a_batch(tiny):
    network = random_detector(tiny, no_calibration).module()
    with torch.inference_mode():
        together = network(images(3))
        for place in range(3):
            for whole, alone in zip(together, network(images(3)[place : place + 1]), strict=True):
                torch.testing.assert_close(whole[place], alone[0])


def test_graphs_of_other_weights_or_dimensions_have_other_fingerprints(tiny):
    graphs = [
        random_detector(tiny, no_calibration),
        random_detector(replace(tiny, image_size=128), no_calibration),
        random_detector(replace(tiny, groups=4), no_calibration),
        build_detector(tiny, dict, no_calibration, fingerprint="11"),
        build_detector(tiny, dict, no_calibration, fingerprint="22"),
    ]
    assert len({graph.fingerprint for graph in graphs}) == 5


@pytest.mark.thorough("exports")
def test_the_exported_graph_equals_the_module_for_other_batches_than_it_was_exported_with(tiny):
    onnxruntime = pytest.importorskip("onnxruntime")
    graph = random_detector(tiny, no_calibration)
    session = onnxruntime.InferenceSession(graph.onnx(), providers=["CPUExecutionProvider"])
    module = graph.module()
    for count in (1, 3):
        found = session.run(["logits", "offsets"], {"images": images(count).numpy()})
        with torch.inference_mode():
            expected = module(images(count))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.thorough("workloads")
def test_the_official_network_runs_on_random_weights_and_finds_something():
    from mlbench_retinanet.workload import RetinaNet, RetinaNetOptions

    from mlbench import Profile, Variant, Weights

    variant = Variant(profile=Profile.FULL, weights=Weights.RANDOM, options=RetinaNetOptions())
    dataset, model = RetinaNet().dataset(variant), RetinaNet().model(variant)
    dataset.load([3])
    module = model.graphs["detector"].module()

    def detector(inputs):
        with torch.inference_mode():
            logits, offsets = module(torch.from_numpy(inputs["images"]))
        assert (logits.shape, offsets.shape) == ((1, 120_087, 264), (1, 120_087, 4))
        return {"logits": logits.numpy(), "offsets": offsets.numpy()}

    (rows,) = model.program.run([dataset.sample(3)], {"detector": detector})
    assert 1 <= len(rows) <= 300
    assert set(rows[:, 0]) == {3}
    assert 0 <= rows[:, 1:6].min() <= rows[:, 1:6].max() <= 1
