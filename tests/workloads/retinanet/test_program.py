import json

import numpy as np
import pytest
from mlbench_retinanet.detection import Decoder, Detections, Selection
from mlbench_retinanet.program import Detection, PreparedImage, WholeDetection, reply_rows

IMAGE_HW = (40, 80)
ANCHORS = np.array([[0, 0, 20, 20], [60, 20, 80, 40]], dtype=np.float32)


class RedLeftGreenRight:
    """A network of two anchors and two classes: red is class 0, on the left; green is class 1, on the right."""

    def __init__(self):
        self.batches = []

    def __call__(self, inputs):
        images = inputs["images"]
        self.batches.append(len(images))
        logits = np.full((len(images), 2, 2), -9, dtype=np.float32)
        logits[:, 0, 0], logits[:, 1, 1] = images[:, 0, 0, 0], images[:, 1, 0, 0]
        return {"logits": logits, "offsets": np.zeros((len(images), 2, 4), dtype=np.float32)}


def program():
    return Detection(Decoder([ANCHORS], image_hw=IMAGE_HW, selection=Selection()), IMAGE_HW)


def sample(index, red=-9.0, green=-9.0):
    pixels = np.zeros((3, *IMAGE_HW), dtype=np.float32)
    pixels[0], pixels[1] = red, green
    return PreparedImage(index, pixels)


@pytest.mark.parametrize("case", ["sorted", "none_above_threshold", "zero_detections"])
def test_reply_bytes_equal_the_references(golden, case):
    expected = json.loads((golden / "postprocess" / "expected.json").read_text())
    inputs = np.load(golden / "postprocess" / "inputs.npz")
    parts = [inputs[f"{case}_{name}"] for name in ("boxes_xyxy_px", "scores", "labels")]
    found, case = Detections(*parts), expected["cases"][case]
    rows = reply_rows(case["qsl_idx"], found, tuple(expected["image_hw"]))
    assert rows.shape == (case["rows"], 7)
    assert rows.tobytes().hex().upper() == case["response_hex"]


def test_rows_end_at_the_first_low_score_and_one_of_exactly_5_percent_is_kept():
    scores = np.array([0.9, 0.05, 0.04, 0.8], dtype=np.float32)
    rows = reply_rows(0, Detections(np.zeros((4, 4), np.float32), scores, np.arange(4)), (800, 800))
    assert rows[:, 6].tolist() == [0, 1]


def test_a_batch_is_one_call_of_the_graph_and_is_answered_in_its_order():
    network = RedLeftGreenRight()
    samples = [sample(7, red=2), sample(3), sample(9, red=1, green=2)]
    left, right = [0, 0, 0.5, 0.25], [0.5, 0.75, 1, 1]  # ymin, xmin, ymax, xmax
    first, second, third = program().run(samples, {"detector": network})
    assert network.batches == [3]
    np.testing.assert_allclose(first, [[7, *left, 0.8808, 0]], atol=1e-4)
    assert second.shape == (0, 7)
    np.testing.assert_allclose(third, [[9, *right, 0.8808, 1], [9, *left, 0.7311, 0]], atol=1e-4)


def test_a_single_image_and_its_reply_have_the_promised_forms():
    network = RedLeftGreenRight()
    (rows,) = program().run([sample(5, red=2)], {"detector": network})
    assert (network.batches, rows.dtype.name, rows.shape) == ([1], "float32", (1, 7))
    spec = program().reply
    assert (spec.dtype, spec.shape, spec.may_be_empty) == ("float32", (None, 7), True)


def test_a_nan_out_of_the_network_reaches_the_reply():
    (rows,) = program().run([sample(5, red=np.nan)], {"detector": RedLeftGreenRight()})
    assert np.isnan(rows).any()


def test_the_official_onnx_file_is_asked_for_each_image_by_the_names_of_its_outputs():
    asked = []

    def whole_detector(inputs):
        asked.append(inputs["images"].shape)
        found = int(inputs["images"][0, 0, 0, 0])
        boxes = np.tile(np.array([8, 4, 16, 40], np.float32), (found, 1))
        scores = np.linspace(0.9, 0.8, found, dtype=np.float32)
        return {"labels": np.full(found, 263), "scores": scores, "boxes": boxes}

    replies = WholeDetection(IMAGE_HW).run([sample(1, red=2), sample(0, red=0)], {"detector": whole_detector})
    assert asked == [(1, 3, *IMAGE_HW)] * 2
    np.testing.assert_allclose(replies[0], [[1, 0.1, 0.1, 1, 0.2, score, 263] for score in (0.9, 0.8)], atol=1e-6)
    assert replies[1].shape == (0, 7)
