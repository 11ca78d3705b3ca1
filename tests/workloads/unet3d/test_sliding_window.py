import json

import numpy as np
import pytest
import scipy
from mlbench_unet3d.sliding_window import Blend, gaussian_weights, most_likely, window_starts


def test_windows_lie_where_the_reference_puts_them_in_its_order(golden):
    cases = json.loads((golden / "sliding_window" / "expected.json").read_text())["windows"]
    for shape, wanted in cases.items():
        starts = window_starts([int(length) for length in shape.split("x")], 128)
        assert len(starts) == wanted["count"]
        assert [list(start) for start in starts] == wanted["starts"]


def test_the_weights_are_the_references(golden):
    wanted = json.loads((golden / "sliding_window" / "expected.json").read_text())["kernel_128"]
    weights = gaussian_weights(128)
    assert (weights.shape, weights.dtype, weights.max()) == ((128, 128, 128), np.float32, wanted["max"])
    assert weights.sum(dtype=np.float64) == pytest.approx(wanted["sum"], rel=1e-6)
    assert weights.min() == pytest.approx(wanted["min"], rel=1e-6)
    for down, back, left, weight in wanted["samples"]:
        assert weights[down, back, left] == pytest.approx(weight, rel=1e-6)


def test_the_weights_of_a_small_window_are_the_references(golden):
    wanted = json.loads((golden / "sliding_window" / "expected.json").read_text())
    np.testing.assert_allclose(gaussian_weights(16)[8, 8], wanted["kernel_16_std_2_center_line"], rtol=1e-6)


def test_the_weights_are_the_cube_root_of_scipys_gaussian():
    line = scipy.signal.windows.gaussian(64, 0.125 * 64)
    cube = np.multiply.outer(np.outer(line, line), line) ** (1 / 3)
    np.testing.assert_allclose(gaussian_weights(64), cube / cube.max(), rtol=1e-6)


def blended(logits, shape, window):
    """What `Blend` makes of one window's logits after the other."""
    blend = Blend(shape, window)
    for start, each in zip(window_starts(shape, window), logits, strict=True):
        blend.add(start, each)
    return blend.labels


def summed(logits, shape, window):
    """The same by whole volumes: all sums first, then the labels."""
    sums = np.zeros((3, *shape), np.float32)
    for (down, back, left), each in zip(window_starts(shape, window), logits, strict=True):
        sums[:, down : down + window, back : back + window, left : left + window] += each
    return sums.argmax(axis=0)


@pytest.mark.parametrize("shape", [(4, 4, 4), (8, 4, 6), (4, 10, 4), (12, 8, 8)])
def test_finishing_slices_early_gives_what_whole_volumes_give(shape):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((len(window_starts(shape, 4)), 3, 4, 4, 4), dtype=np.float32)
    labels = blended(logits, shape, 4)
    assert labels.dtype == np.uint8
    np.testing.assert_array_equal(labels, summed(logits, shape, 4))


def test_logits_are_added_up_before_one_wins():
    """Two windows that overlap by a slice say 1 and 2; in between the larger sum decides."""
    first, second = np.zeros((2, 3, 2, 2, 2), np.float32)
    first[1], second[2] = 5, 3
    labels = blended([first, second], (3, 2, 2), 2)
    assert labels[:, 0, 0].tolist() == [1, 1, 2]


def test_of_equal_sums_the_first_class_wins():
    sums = np.array([[1, 1, 0, 0, 2], [1, 0, 3, 0, 1], [1, 1, 3, 1, 2]], np.float32)
    out = np.empty(5, np.uint8)
    most_likely(sums.copy(), out)
    assert out.tolist() == sums.argmax(axis=0).tolist() == [0, 0, 1, 2, 0]


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_a_nan_among_the_logits_is_not_hidden_behind_a_label(channel):
    logits = np.zeros((3, 3, 4, 4, 4), np.float32)
    logits[1, channel, 3, 2, 1] = np.nan
    with pytest.raises(ValueError, match="NaN among the logits"):
        blended(logits, (8, 4, 4), 4)
