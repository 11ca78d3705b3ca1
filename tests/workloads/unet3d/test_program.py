import json
import tracemalloc

import numpy as np
import pytest
from mlbench_unet3d.graphs import Architecture, load_onnx_segmenter, random_segmenter
from mlbench_unet3d.program import Segmentation, segmentation


def program(window, windows_per_call=2):
    return Segmentation(image="image", logits="logits", window=window, windows_per_call=windows_per_call)


class Brightness:
    """A graph that calls what is above 1 a kidney and what is below -1 a tumour, and remembers its batches."""

    def __init__(self):
        self.batches = []

    def __call__(self, inputs):
        (image,) = inputs.values()
        self.batches.append(len(image))
        return {"logits": np.concatenate([np.ones_like(image), image, -image], axis=1)}


def volume(*shape, seed=0):
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


def by_brightness(image):
    return np.select([image > 1, image < -1], [1, 2], 0)


@pytest.mark.parametrize("windows_per_call", [1, 2, 5, 100])
def test_a_volume_is_segmented_as_the_reference_does(golden, windows_per_call):
    inputs = np.load(golden / "window_inference" / "inputs.npz")
    wanted = np.load(golden / "window_inference" / "expected.npz")["segmentation"]
    case = json.loads((golden / "window_inference" / "expected.json").read_text())

    def linear(tensors):
        weight, bias = (inputs[name][:, None, None, None] for name in ("weight", "bias"))
        return {"logits": weight * tensors["image"] + bias + inputs["position_bias"]}

    run = program(case["roi"], windows_per_call).run
    (labels,) = run([inputs["image"][0]], {"segmenter": linear})
    assert (labels.dtype.name, labels.nbytes) == (case["dtype"], case["response_bytes"])
    np.testing.assert_array_equal(labels, wanted[0, 0])
    assert np.bincount(labels.ravel()).tolist() == case["counts"]


def test_samples_of_mixed_shapes_are_answered_in_order_and_share_calls():
    graph = Brightness()
    samples = [volume(8, 4, 4), volume(4, 4, 4, seed=1), volume(4, 8, 6, seed=2)]  # 3 + 1 + 6 windows
    replies = program(4, windows_per_call=4).run(samples, {"segmenter": graph})
    assert graph.batches == [4, 4, 2]
    for reply, sample in zip(replies, samples, strict=True):
        np.testing.assert_array_equal(reply, by_brightness(sample))
        assert reply.flags.c_contiguous
        assert len(reply.shape) == len(program(4).reply.shape)


def test_a_sample_that_is_mapped_from_a_file_is_read_window_by_window(tmp_path):
    np.save(tmp_path / "image.npy", volume(8, 8, 8))
    mapped = np.load(tmp_path / "image.npy", mmap_mode="r")
    (reply,) = program(4).run([mapped], {"segmenter": Brightness()})
    np.testing.assert_array_equal(reply, by_brightness(volume(8, 8, 8)))


def test_memory_is_that_of_a_volume_not_of_all_of_them():
    sums_of_one = 2 * 3 * 8 * 64 * 64 * 4  # two half windows of sums
    replies_of_all = 30 * 64 * 64 * 16
    samples = [volume(16, 64, 64)] * 30
    tracemalloc.start()
    try:
        program(16).run(samples, {"segmenter": Brightness()})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < replies_of_all + 5 * sums_of_one < replies_of_all + 30 * sums_of_one


def test_a_sample_is_as_long_as_its_windows():
    assert program(4).length(volume(4, 8, 6)) == 6


def test_a_graph_is_given_no_more_windows_than_it_takes(tmp_path):
    small = Architecture(filters=(2, 2, 2, 2, 2), window=64)
    assert segmentation(random_segmenter(small, None), windows_per_call=3).windows_per_call == 3
    (tmp_path / "3dunet_kits19_128x128x128.onnx").write_bytes(b"any")
    fixed = segmentation(load_onnx_segmenter(tmp_path / "3dunet_kits19_128x128x128.onnx", None), windows_per_call=3)
    assert fixed.windows_per_call == 1
