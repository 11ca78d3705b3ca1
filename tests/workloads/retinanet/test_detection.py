import json

import numpy as np
import pytest
from detections_one_by_one import detections_of
from mlbench_retinanet import detection
from mlbench_retinanet.anchors import anchors_by_level, map_shapes
from mlbench_retinanet.detection import Decoder, Selection

BASES = (32, 64, 128, 256, 512)
WANTED = 2.0
"""A logit whose score is 0.88."""


def decoder(levels, **selection):
    return Decoder(
        [np.array(level, np.float32) for level in levels], image_hw=(100, 200), selection=Selection(**selection)
    )


def found(levels, logits, offsets=None, **selection):
    """What a decoder finds in an image of 200x100 pixels, where the offsets are 0 unless given."""
    logits = np.array(logits, np.float32)
    offsets = np.zeros((len(logits), 4)) if offsets is None else offsets
    return of_one(decoder(levels, **selection), logits, np.array(offsets, np.float32))


def of_one(decoder, logits, offsets):
    """What a decoder finds in an image."""
    (found,) = decoder.detections(logits[np.newaxis], offsets[np.newaxis])
    return found


def logit(score):
    return np.log(score / (1 - score))


def test_detections_equal_the_references(golden):
    case = json.loads((golden / "head_decode" / "expected.json").read_text())
    inputs, expected = (np.load(golden / "head_decode" / f"{name}.npz") for name in ("inputs", "expected"))
    selection = Selection(
        lowest_score=case["score_thresh"],
        per_level=case["topk_per_level"],
        largest_overlap=case["nms_iou"],
        at_most=case["max_detections"],
    )
    levels = anchors_by_level((96, 128), map_shapes((96, 128), len(BASES)), BASES)
    found = of_one(
        Decoder(levels, image_hw=(96, 128), selection=selection),
        *(inputs[name].astype(np.float32) for name in ("cls_logits", "bbox_regression")),
    )

    allowed = case["tolerance"]
    assert len(found.scores) == case["num_detections"]
    np.testing.assert_allclose(found.scores, expected["scores"], rtol=0, atol=allowed["scores_abs"])
    values, counts = np.unique(expected["scores"], return_counts=True)
    alone = np.isin(expected["scores"], values[counts == 1])  # equal scores come in whichever order torch sorts them
    alone[-1] = False  # its equal was cut off
    assert alone.sum() > 200
    assert found.labels[alone].tolist() == expected["labels"][alone].tolist()
    np.testing.assert_allclose(found.boxes[alone], expected["boxes"][alone], rtol=0, atol=allowed["boxes_abs"])


@pytest.mark.parametrize("likely", [-5.0, -3.0])
def test_detections_equal_torchvisions(likely):
    import torch
    from torchvision.models.detection import RetinaNet

    rng = np.random.default_rng(0)
    levels = anchors_by_level((96, 128), map_shapes((96, 128), len(BASES)), BASES)
    ends = np.cumsum([len(level) for level in levels])
    logits = rng.normal(likely, 1.0, (ends[-1], 7)).astype(np.float32)
    offsets = rng.normal(0, 0.4, (ends[-1], 4)).astype(np.float32)
    body = torch.nn.Identity()
    body.out_channels = 8
    torchvisions = RetinaNet(body, num_classes=7, topk_candidates=400, detections_per_img=200)
    outputs = {"cls_logits": logits, "bbox_regression": offsets}
    split = {
        name: [torch.from_numpy(part)[None] for part in np.split(output, ends[:-1])] for name, output in outputs.items()
    }
    (expected,) = torchvisions.postprocess_detections(
        split, [[torch.from_numpy(level) for level in levels]], [(96, 128)]
    )

    selection = Selection(per_level=400, at_most=200)
    found = of_one(Decoder(levels, image_hw=(96, 128), selection=selection), logits, offsets)

    assert len(found.scores) > 100
    assert found.labels.tolist() == expected["labels"].tolist()
    np.testing.assert_allclose(found.scores, expected["scores"], atol=1e-6)
    np.testing.assert_allclose(found.boxes, expected["boxes"], atol=1e-3)


@pytest.mark.parametrize("together", [4, 1, 3], ids=lambda count: f"looked through by {count}")
@pytest.mark.parametrize("digits", [7, 1], ids=["scores differ", "many scores are equal"])
def test_images_of_a_batch_have_the_detections_of_each_alone_to_the_bit(monkeypatch, together, digits):
    rng = np.random.default_rng(0)
    image_hw, classes = (96, 128), 7
    levels = anchors_by_level(image_hw, map_shapes(image_hw, len(BASES)), BASES)
    count = sum(map(len, levels))
    likely = np.array([-4.5, -9.0, -3.5, -2.0], np.float32)[:, None, None]  # the last has more boxes than are moved
    logits = (likely + rng.normal(0, 1, (4, count, classes))).round(digits).astype(np.float32)
    logits[1] = likely[1]  # nothing is found
    offsets = rng.normal(0, 0.4, (4, count, 4)).astype(np.float32)
    monkeypatch.setattr(detection, "_MOST_LOGITS", together * count * classes)
    selection = Selection(per_level=400, at_most=200)

    found = Decoder(levels, image_hw=image_hw, selection=selection).detections(logits, offsets)

    expected = [detections_of(levels, image_hw, selection, *each) for each in zip(logits, offsets, strict=True)]
    assert [len(each.scores) for each in found] == [len(scores) for _, scores, _ in expected]
    assert len(found[0].scores) > 100 > len(found[1].scores) == 0
    for ours, theirs in zip(found, expected, strict=True):
        for our, their in zip(ours, theirs, strict=True):
            assert our.dtype == their.dtype
            np.testing.assert_array_equal(our, their)


def test_a_nan_stays_in_its_image():
    one = [[[0, 0, 10, 10], [20, 0, 30, 10]]]
    logits = np.array([[[WANTED], [1]], [[np.nan], [1]], [[WANTED], [1]]], np.float32)
    offsets = np.zeros((3, 2, 4), np.float32)
    offsets[2, 1, 3] = np.nan
    first, second, third = decoder(one).detections(logits, offsets)
    assert first.scores == pytest.approx([0.8808, 0.7311], abs=1e-4)
    assert np.isnan(second.scores[0])
    assert np.isnan(third.scores).all()
    assert np.isnan(third.boxes).all()


def test_a_box_is_its_anchor_moved_by_shares_of_its_size_and_stretched_by_powers_of_e():
    anchors = [[[10, 10, 30, 50]]]
    boxes = found(anchors, [[WANTED]], [[0.5, -0.25, np.log(2), 0]]).boxes
    np.testing.assert_allclose(boxes, [[10, 0, 50, 40]], atol=1e-5)


def test_a_box_grows_by_1000_over_16_at_most_and_ends_where_the_image_ends():
    boxes = found([[[100, 50, 101, 51]]], [[WANTED]], [[0, 0, 50, 0]]).boxes
    np.testing.assert_allclose(boxes, [[100.5 - 31.25, 50, 100.5 + 31.25, 51]], atol=1e-4)
    boxes = found([[[-50, -50, 250, 150]]], [[WANTED]]).boxes
    assert boxes.tolist() == [[0, 0, 200, 100]]


def test_a_score_must_be_better_than_the_lowest():
    apart = [[[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]]]
    assert found(apart, [[logit(0.0501)], [logit(0.0499)], [-9]]).scores == pytest.approx([0.0501], abs=1e-6)


def test_of_two_boxes_of_a_class_that_overlap_by_more_the_worse_goes():
    boxes = [[0, 0, 10, 10], [0, 0, 10, 6], [0, 0, 10, 5]]  # overlaps with the first: 0.6 and 0.5
    detections = found([boxes], [[2], [1], [0]])
    assert detections.boxes.tolist() == [boxes[0], boxes[2]]


def test_boxes_of_other_classes_are_left_alone():
    detections = found([[[0, 0, 10, 10], [0, 0, 10, 10]]], [[2, -9, 1], [-9, 1.5, -9]])
    assert detections.labels.tolist() == [0, 1, 2]
    assert detections.scores == pytest.approx([0.8808, 0.8176, 0.7311], abs=1e-4)


def test_the_best_of_each_level_go_on_and_of_all_the_best():
    columns = [[[20 * number, 50 * row, 20 * number + 10, 50 * row + 10] for number in range(5)] for row in range(2)]
    logits = [[value] for value in (5, 1, 4, 2, 3, 0.5, 0.1, 0.2, 0.3, 0.4)]
    detections = found(columns, logits, per_level=2, at_most=3)
    assert detections.boxes[:, :2].tolist() == [[0, 0], [40, 0], [0, 50]]


def test_a_thousand_of_a_level_go_on_and_three_hundred_are_answered_unless_said_otherwise():
    # the official post-processing's numbers, which are torchvision's
    places = [(10 * (number % 20), 10 * (number // 20)) for number in range(200)]
    apart = [[x, y, x + 9, y + 9] for x, y in places]
    logits = np.full((200, 6), WANTED)  # 1,200 candidates
    assert len(found([apart], logits, at_most=5000).scores) == 1000
    assert len(found([apart], logits).scores) == 300
    assert Selection() == Selection(lowest_score=0.05, per_level=1000, largest_overlap=0.5, at_most=300)


def test_nothing_found_is_no_rows():
    detections = found([[[0, 0, 10, 10]], [[0, 0, 20, 20]]], [[-9, -9], [-9, -9]])
    assert [part.shape for part in detections] == [(0, 4), (0,), (0,)]


@pytest.mark.parametrize("broken", ["logit", "offset"])
def test_a_nan_shows_and_is_not_taken_for_nothing_found(broken):
    logits, offsets = [[-9.0], [WANTED + 1], [WANTED]], np.zeros((3, 4))
    if broken == "logit":
        logits[0] = [np.nan]
    else:
        offsets[2, 3] = np.nan
    detections = found([[[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]]], logits, offsets, per_level=2, at_most=1)
    assert np.isnan(detections.scores).tolist() == [True]
