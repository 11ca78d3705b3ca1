import numpy as np
import pytest
import torch
from mlbench_pytorch.backend import PyTorch
from mlbench_unet3d.device_form import (
    LABELLER,
    LOADER,
    ROOM,
    SEGMENTER,
    DeviceForm,
    segmentation_in_state,
    view_blocks,
)
from mlbench_unet3d.full_profile import FullProfile
from mlbench_unet3d.graphs import Architecture, random_segmenter
from mlbench_unet3d.modules_in_state import WindowedNetwork
from mlbench_unet3d.program import segmentation
from mlbench_unet3d.sliding_window import gaussian_weights, window_starts
from mlbench_unet3d.workload import UNet3DOptions

from mlbench import Precision, Weights
from mlbench.toolkit import OneGraph

WINDOW = 8


class Tiny(OneGraph):
    """A profile of a network whose last layer's bias may be anything."""

    def __init__(self, bias=None):
        self.bias = bias

    def dataset(self):
        raise NotImplementedError

    def graph(self, weights):
        graph = random_segmenter(Architecture(filters=(2, 3), window=WINDOW), None)
        built = graph.module()
        if self.bias is not None:
            built.output.conv[0].weight.data.zero_()
            built.output.conv[0].bias.data = torch.tensor(self.bias)
        graph.module = lambda: built
        return graph


def volume(*shape, seed=0):
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


def compiled(graphs):
    backend = PyTorch()
    return {name: backend.compile(graph, Precision.FP32) for name, graph in graphs.items()}


def on_host(profile, samples, windows=2):
    graphs = profile.graphs(Weights.RANDOM)
    return segmentation(graphs[SEGMENTER], windows_per_call=windows).run(samples, compiled(graphs))


def on_device(profile, samples, windows=2):
    graphs = DeviceForm(profile).graphs(Weights.RANDOM)
    return segmentation_in_state(graphs[SEGMENTER], windows_per_call=windows).run(samples, compiled(graphs))


@pytest.mark.parametrize("windows", [1, 2, 5, 100])
def test_volumes_of_mixed_shapes_get_the_hosts_labels(windows):
    samples = [volume(16, 8, 12), volume(8, 8, 8, seed=1), volume(12, 20, 8, seed=2)[:, :16]]
    for expected, found in zip(on_host(Tiny(), samples, windows), on_device(Tiny(), samples, windows), strict=True):
        assert len(np.unique(expected)) > 1
        np.testing.assert_array_equal(found, expected)
        assert (found.dtype, found.flags.c_contiguous) == (expected.dtype, True)


class Calls(dict):
    """Executables of a device form that remember what slots they were given, and whose state it was."""

    def __init__(self, executables):
        super().__init__({name: self.noting(name, each) for name, each in executables.items()})
        self.seen = []

    def noting(self, name, executable):
        class Noting:
            new_state = staticmethod(executable.new_state)

            def __call__(_, inputs, state):
                self.seen.append((name, inputs["places"].copy(), id(state)))
                return executable(inputs, state)

        return Noting()


def test_more_volumes_than_a_state_has_room_for_are_labelled_in_turns():
    samples = [volume(32, 32, 40, seed=seed) for seed in range(3)]  # 640 blocks each
    graphs = DeviceForm(Tiny()).graphs(Weights.RANDOM)
    calls = Calls(compiled(graphs))
    replies = segmentation_in_state(graphs[SEGMENTER], windows_per_call=64).run(samples, calls)
    for expected, found in zip(on_host(Tiny(), samples, 64), replies, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert max(places.max() for _, places, _ in calls.seen) == 639 < ROOM.largest
    assert len({state for _, _, state in calls.seen}) == 1
    assert sum(name == LOADER for name, _, _ in calls.seen) == 3 * 640 / 64
    assert sum(name == LABELLER for name, _, _ in calls.seen) == 3 * 640 / 64


def test_a_batch_finds_nothing_of_the_one_before():
    first, second = volume(16, 16, 16), volume(8, 8, 12, seed=1)
    graphs = DeviceForm(Tiny()).graphs(Weights.RANDOM)
    program, executables = segmentation_in_state(graphs[SEGMENTER], windows_per_call=2), compiled(graphs)
    program.run([first], executables)
    (found,) = program.run([second], executables)
    np.testing.assert_array_equal(found, on_host(Tiny(), [second])[0])


class Thrice(torch.nn.Module):
    def forward(self, image):
        return image.expand(-1, 3, -1, -1, -1)


def test_windows_add_up_in_their_order_to_the_last_bit():
    image = volume(16, 8, 12)
    expected, weights = np.zeros((3, *image.shape), np.float32), gaussian_weights(WINDOW)
    for down, back, left in window_starts(image.shape, WINDOW):
        place = (..., slice(down, down + WINDOW), slice(back, back + WINDOW), slice(left, left + WINDOW))
        expected[place] += image[place] * weights
    blocks = view_blocks(image, WINDOW // 2)
    slots = np.arange(24).reshape(blocks.shape[:3])
    windows = [slots[z : z + 2, y : y + 2, x : x + 2].ravel() for z in range(3) for y in range(1) for x in range(2)]
    network, sums = WindowedNetwork(Thrice(), weights), torch.zeros(24, 3, 4, 4, 4)
    network(torch.tensor(np.array(windows)), torch.tensor(blocks.reshape(24, 1, 4, 4, 4)), sums)
    for channel in range(3):
        np.testing.assert_array_equal(
            sums[slots.ravel(), channel], view_blocks(expected[channel], 4).reshape(-1, 4, 4, 4)
        )


def test_of_equal_sums_the_first_class_is_taken():
    for bias, label in (([1.0, 1.0, 1.0], 0), ([0.0, 1.0, 1.0], 1), ([0.0, 1.0, 2.0], 2)):
        (found,) = on_device(Tiny(bias), [volume(8, 8, 12)])
        np.testing.assert_array_equal(found, on_host(Tiny(bias), [volume(8, 8, 12)])[0])
        assert (found == label).all()


def test_a_logit_that_is_no_number_is_an_error_in_both_forms():
    for answer in (on_host, on_device):
        with pytest.raises(ValueError, match="NaN among the logits"):
            answer(Tiny([0.0, float("nan"), 1.0]), [volume(8, 8, 12)])


@pytest.mark.parametrize(("file", "kind"), [("unet.onnx", FullProfile), ("unet.pth", DeviceForm), ("", DeviceForm)])
def test_an_onnx_file_runs_as_it_is_on_a_device_too(file, kind):
    weights = Weights.TRAINED if file else Weights.RANDOM
    profile = FullProfile(UNet3DOptions(weights=file or None), weights)
    assert type(profile.on_device()) is kind


def test_only_the_network_computes_in_the_precision_of_the_run():
    graphs = DeviceForm(Tiny()).graphs(Weights.RANDOM)
    found = {name: graph.precision(Precision.INT8) for name, graph in graphs.items()}
    assert found == {SEGMENTER: Precision.INT8, LOADER: Precision.FP32, LABELLER: Precision.FP32}
