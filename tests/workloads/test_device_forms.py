"""The forms of data and network for a backend with memory of its own."""

import math

import numpy as np
import pytest
from mlbench_onnxruntime.backend import OnnxRuntime
from mlbench_pytorch.backend import PyTorch
from mlbench_resnet50.preprocessing import TORCHVISION_MEAN, TORCHVISION_STD
from mlbench_retinanet.detection import Candidates, Decoder, Selection
from mlbench_tensorrt.backend import TensorRt

from mlbench import Memory, Precision, Profile, Variant, Weights
from mlbench.discovery import Plugins
from mlbench.measurement.job import Job
from mlbench.records.job_spec import JobSpec
from mlbench.toolkit import TorchOptions

torch = pytest.importorskip("torch")

FORMED = {"resnet50": (48, 1e-3), "retinanet": (48, 1e-3), "3d-unet": (5, 0), "stable-diffusion-xl": (12, 1)}
"""Samples, and what a number of a reply may differ by where another runtime computes; an image's are whole."""
UNDECIDED = {"3d-unet": 3e-5}
"""Share of a reply's numbers that may be others there: two classes are as likely."""
MORE = pytest.mark.thorough("workloads")
NAMES = ["resnet50", "3d-unet", *(pytest.param(name, marks=MORE) for name in ("retinanet", "stable-diffusion-xl"))]
MINI = {"profile": "mini", "tier": "smoke", "precision": "fp32", "weights": "trained", "settings": {}, "machine": "m1"}


def parts_of(name, memory, **asked):
    workload = Plugins.discover().workload(name)
    asked = {"profile": Profile.MINI, "weights": Weights.TRAINED, **asked}
    variant = Variant(options=workload.options, memory=memory, **asked)
    return workload.dataset(variant), workload.model(variant)


def replies(name, memory, backend, precision=Precision.FP32):
    data, model = parts_of(name, memory)
    executables = {each: backend.compile(graph, graph.precision(precision)) for each, graph in model.graphs.items()}
    count, _ = FORMED[name]
    data.load(range(count))
    samples = [data.sample(index) for index in range(count)]
    parts = [samples[start : start + 8] for start in range(0, count, 8)]
    return [np.asarray(reply) for part in parts for reply in model.program.run(part, executables)]


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_give_the_same_replies_to_the_last_bit(name):
    host, device = (replies(name, memory, PyTorch()) for memory in Memory)
    assert any(reply.size for reply in host)
    for expected, found in zip(host, device, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.thorough("exports")
@pytest.mark.parametrize("name", FORMED)
def test_the_form_for_a_device_exports_to_onnx_and_answers_as_torch_does(name):
    _, tolerance = FORMED[name]
    for expected, found in zip(
        replies(name, Memory.DEVICE, PyTorch()), replies(name, Memory.DEVICE, OnnxRuntime()), strict=True
    ):
        is_close = np.isclose(found.astype(float), expected, rtol=1e-3, atol=tolerance)
        assert (~is_close).mean() <= UNDECIDED.get(name, 0)


@pytest.mark.thorough("exports")
def test_a_network_with_volumes_in_state_is_quantised_by_the_same_ranges():
    host, device = (replies("3d-unet", memory, OnnxRuntime(), Precision.INT8) for memory in Memory)
    for expected, found in zip(host, device, strict=True):
        assert (found != expected).mean() <= UNDECIDED["3d-unet"]


@pytest.mark.thorough("workloads")
@pytest.mark.parametrize("precision", [Precision.BF16, Precision.FP16])
def test_latents_on_a_device_are_fp32_whatever_the_networks_compute_in(precision):
    name = "stable-diffusion-xl"
    host, device = (replies(name, memory, PyTorch(), precision) for memory in Memory)
    for expected, found in zip(host, device, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("weights", list(Weights))
@pytest.mark.parametrize("name", FORMED)
def test_both_forms_are_of_the_same_data_and_weights(name, weights):
    profile = Profile.FULL if weights is Weights.RANDOM else Profile.MINI
    (data, model), (sent, other) = (parts_of(name, memory, profile=profile, weights=weights) for memory in Memory)
    assert (sent.fingerprint, other.weights_fingerprint) == (data.fingerprint, model.weights_fingerprint)
    assert [each.fingerprint for each in other.graphs.values()] != [each.fingerprint for each in model.graphs.values()]


def test_noise_is_the_same_in_both_forms():
    (data, _), (pixels, _) = (
        parts_of("resnet50", memory, profile=Profile.FULL, weights=Weights.RANDOM) for memory in Memory
    )
    for each in (data, pixels):
        each.load([3])
    normalised = (pixels.sample(3) / np.float32(255) - TORCHVISION_MEAN[:, None, None]) / TORCHVISION_STD[:, None, None]
    np.testing.assert_array_equal(normalised, data.sample(3))


def test_a_job_asks_the_backend_where_it_computes_unless_nothing_is_computed():
    spec = JobSpec(workload="resnet50", backend="tensorrt", scenario="Offline", folder="", **MINI)
    plugins = Plugins.discover()
    assert Job.of_spec(spec, plugins).variant.memory is Memory.DEVICE
    assert Job.of_spec(spec, plugins, memory=Memory.HOST).variant.memory is Memory.HOST


def sent_bytes(name, memory):
    """Return the bytes of a sample that go into the network at full size and come out of it."""
    _, model = parts_of(name, memory, profile=Profile.FULL, weights=Weights.RANDOM)
    (graph,) = model.graphs.values()
    specs = (*graph.inputs, *graph.outputs)
    return sum(math.prod(spec.concrete_shape({"batch": 1})) * np.dtype(spec.dtype).itemsize for spec in specs)


def test_at_full_size_little_more_than_the_image_travels():
    assert sent_bytes("resnet50", Memory.HOST) == 4 * (3 * 224 * 224 + 1000)
    assert sent_bytes("resnet50", Memory.DEVICE) == 3 * 224 * 224 + 4 * 1000
    anchors = 9 * (100**2 + 50**2 + 25**2 + 13**2 + 7**2)
    assert sent_bytes("retinanet", Memory.HOST) == 4 * (3 * 800 * 800 + anchors * (264 + 4))
    assert sent_bytes("retinanet", Memory.DEVICE) == 4 * (3 * 800 * 800 + 5 * 1000 * (1 + 1 + 4))


class Scene:
    """Logits of two levels, more of which pass than go on."""

    def __init__(self, seed=0):
        draw = np.random.default_rng(seed)
        corners = draw.uniform(0, 60, (96, 2)).astype(np.float32)
        anchors = np.concatenate([corners, corners + draw.uniform(4, 30, (96, 2)).astype(np.float32)], axis=1)
        selection = Selection(per_level=20)
        self.decoder = Decoder([anchors[:64], anchors[64:]], image_hw=(64, 64), selection=selection)
        self.logits = draw.standard_normal((96, 3)).astype(np.float32)
        self.offsets = (0.1 * draw.standard_normal((96, 4))).astype(np.float32)

    def candidates(self):
        best = [
            start + np.argsort(-self.logits.reshape(-1)[start:end])[:20] for start, end in ((0, 64 * 3), (64 * 3, 288))
        ]
        places = np.concatenate(best).astype(np.int32)
        chosen = self.logits.reshape(-1)[places], places, self.offsets[places // 3]
        return Candidates(*(each[np.newaxis] for each in chosen))


def test_candidates_chosen_elsewhere_give_the_detections_of_all_logits():
    scene = Scene()
    (expected,) = scene.decoder.detections(scene.logits[np.newaxis], scene.offsets[np.newaxis])
    (found,) = scene.decoder.detections_among(scene.candidates(), classes=3)
    assert len(expected.scores) > 5
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_nan_among_candidates_is_no_sound_reply_either():
    scene = Scene()
    scene.logits[3, 1] = np.nan
    places = np.argsort(-scene.logits.reshape(-1))  # NaN comes last here, first in torch
    candidates = scene.candidates()
    spoilt = Candidates(
        np.append(candidates.logits, np.float32(np.nan))[np.newaxis],
        np.append(candidates.places, places[-1]).astype(np.int32)[np.newaxis],
        np.concatenate([candidates.offsets[0], scene.offsets[3:4]])[np.newaxis],
    )
    (found,) = scene.decoder.detections_among(spoilt, classes=3)
    assert np.isnan(found.scores).any()


def test_backends_say_where_they_compute():
    assert PyTorch().with_options(TorchOptions(device="cpu")).memory() is Memory.HOST
    assert OnnxRuntime().memory() is Memory.HOST
    assert TensorRt().memory() is Memory.DEVICE


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA or HIP device")
@pytest.mark.parametrize("name", FORMED)
def test_on_a_gpu_both_forms_answer_alike(name):
    backend = PyTorch().with_options(TorchOptions(device="cuda"))
    assert backend.memory() is Memory.DEVICE
    host, device = (replies(name, memory, backend) for memory in Memory)
    for expected, found in zip(host, device, strict=True):
        np.testing.assert_allclose(found.astype(float), expected, rtol=1e-4, atol=FORMED[name][1])
