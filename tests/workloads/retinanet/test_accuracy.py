import copy
import json

import numpy as np
import pytest
from mlbench_retinanet.accuracy import MeanAveragePrecision
from mlbench_retinanet.dataset import ANNOTATIONS, read_annotations

from mlbench import InvalidRunError, LoggedReply
from mlbench.rules.official import official_rules

TARGETS = official_rules("retinanet").targets

LOGS = [
    "accuracy_basic",
    "accuracy_empty_and_duplicate",
    "accuracy_many_crowd",
    "accuracy_perfect_subset",
    "accuracy_tied_scores",
]

TRUTH = {
    "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
    "images": [{"id": 1, "height": 100, "width": 200}, {"id": 2, "height": 50, "width": 50}],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 0, "bbox": [20, 10, 40, 30], "area": 1200, "iscrowd": 0},
        {"id": 2, "image_id": 2, "category_id": 1, "bbox": [0, 0, 25, 50], "area": 1250, "iscrowd": 0},
    ],
}
CAT = [0, 0.1, 0.1, 0.4, 0.3, 0.9, 0]  # the first box, in shares of its image
DOG = [1, 0, 0, 1, 0.5, 0.8, 1]


def metric():
    return MeanAveragePrecision(copy.deepcopy(TRUTH), TARGETS)


def packed(*rows):
    return np.array(rows, dtype=np.float32).tobytes()


def log(*replies):
    """A log of these rows of detections to samples 0, 1, ..."""
    return [LoggedReply(index=index, data=packed(*rows)) for index, rows in enumerate(replies)]


def changed(row, **values):
    places = {"index": 0, "top": 1, "left": 2, "bottom": 3, "right": 4, "score": 5, "label": 6}
    row = list(row)
    for name, value in values.items():
        row[places[name]] = value
    return row


@pytest.mark.parametrize("name", LOGS)
def test_the_official_script_prints_the_same_line_for_the_same_log(golden, name, capfd):
    case = json.loads((golden / name / "expected.json").read_text())
    entries = json.loads((golden / name / "mlperf_log_accuracy.json").read_text())
    metric = MeanAveragePrecision(read_annotations(golden / name / ANNOTATIONS, classes=264), TARGETS)

    scores = metric.score([LoggedReply(index=e["qsl_idx"], data=bytes.fromhex(e["data"])) for e in entries])

    assert metric.line(scores) == case["last_line"]
    allowed = 100 * case["tolerance"]["coco_stats_abs"]
    assert scores["mAP"] == pytest.approx(100 * case["coco_stats"][0], abs=allowed)
    assert scores["mAP50"] == pytest.approx(100 * case["coco_stats"][1], abs=allowed)
    assert scores["detections"] == case["num_detections"]
    assert capfd.readouterr().out == ""


def test_the_order_of_replies_does_not_matter_and_the_first_to_a_sample_counts():
    right = log([CAT], [DOG])
    later = LoggedReply(index=0, data=packed(changed(CAT, label=1)))
    assert metric().score([right[1], right[0], later])["mAP"] == pytest.approx(100)


def test_a_box_is_right_up_to_the_overlap_that_it_has():
    # 31 of 40 pixels wide: overlap 0.775, right at 0.5, 0.55 ... 0.75: six of ten thresholds for one of two classes
    narrow = changed(CAT, right=0.255)
    assert metric().score(log([narrow], [DOG]))["mAP"] == pytest.approx(100 * (0.6 + 1) / 2)


def test_of_300_rows_to_an_image_those_beyond_the_first_100_count_if_they_are_of_another_class():
    crowd = [changed(CAT, score=0.95, top=0.6, bottom=0.7) for _ in range(100)]
    assert metric().score(log([*crowd, CAT], [DOG]))["mAP"] == pytest.approx(50)  # 101st of its class
    others = [changed(row, label=1) for row in crowd]
    assert metric().score(log([*others, CAT]))["mAP"] == pytest.approx(100)  # no dog is in the first image


def test_an_image_without_detections_still_counts():
    assert metric().score(log([CAT], []))["mAP"] == pytest.approx(50)


def test_only_images_that_were_answered_count():
    assert metric().score(log([CAT]))["mAP"] == pytest.approx(100)


@pytest.mark.parametrize("replies", [[], [[], []]])
def test_a_log_in_which_nothing_was_found_has_no_score(replies):
    with pytest.raises(InvalidRunError, match=f"of {len(replies)} images answered none has a detection"):
        metric().score(log(*replies))


def test_the_official_target_is_99_percent_of_the_reference_and_meeting_it_exactly_is_enough():
    (target,) = metric().targets
    assert (target.reference, target.name, target.required) == (37.55, "99", True)
    assert target.lower == pytest.approx(37.1745, abs=1e-9)
    assert target.is_met_by(37.55 * 0.99)
    assert not target.is_met_by(37.174)


@pytest.mark.parametrize("size", [4, 24, 30])
def test_a_reply_of_an_odd_size_makes_the_run_invalid_and_is_named(size):
    with pytest.raises(InvalidRunError, match=f"sample 1 has {size} bytes"):
        metric().score([*log([CAT]), LoggedReply(index=1, data=b"\0" * size)])


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("column", ["top", "score", "label"])
def test_a_value_that_is_not_a_number_makes_the_run_invalid_and_is_named(column, value):
    with pytest.raises(InvalidRunError, match="sample 1 contains a value"):
        metric().score(log([CAT], [changed(DOG, **{column: value})]))


@pytest.mark.parametrize("index", [-1, 2])
def test_a_reply_to_an_unknown_sample_makes_the_run_invalid(index):
    with pytest.raises(InvalidRunError, match=f"sample {index} was answered, but there are 2"):
        metric().score([LoggedReply(index=index, data=packed(CAT))])


MOUSE = [0, 0.5, 0.5, 0.6, 0.6, 0.06, 1]


def difference(found, wanted):
    return metric().difference(packed(*found), packed(*wanted))


def test_the_same_detections_do_not_differ_in_whatever_order():
    assert difference([CAT, MOUSE], [MOUSE, CAT]) == 0
    assert difference([], []) == 0


def test_a_detection_differs_by_what_moved_most_weighed_by_its_score():
    assert difference([changed(CAT, right=CAT[4] + 0.001)], [CAT]) == pytest.approx(0.001 * 0.9, rel=1e-3)
    assert difference([changed(CAT, score=0.88, right=CAT[4] + 0.001)], [CAT]) == pytest.approx(0.02 * 0.9, rel=1e-3)
    dogs = [changed(DOG, index=0), changed(DOG, index=0, left=0.0)]  # which do not move, and weigh more than 1 with it
    total = CAT[5] + sum(dog[5] for dog in dogs)
    found = difference([changed(CAT, right=CAT[4] + 0.01), *dogs], [CAT, *dogs])
    assert found == pytest.approx(0.01 * CAT[5] / total, rel=1e-3)


def test_a_weak_detection_that_tips_over_weighs_no_more_than_its_score():
    for found, wanted in (([CAT], [CAT, MOUSE]), ([MOUSE], [])):
        assert difference(found, wanted) == pytest.approx(0.06)
        assert difference(wanted, found) == pytest.approx(0.06)


@pytest.mark.parametrize(
    ("other", "least"),
    [
        ([], 0.89),
        ([changed(CAT, right=0.35)], 0.04),
        ([changed(CAT, score=0.7)], 0.13),
        ([changed(CAT, label=1)], 0.7),
        ([changed(CAT, index=1)], 1),
        ([changed(CAT, top=np.nan)], 1),
        ([CAT, changed(CAT, top=0.6, bottom=0.9)], 0.25),
    ],
    ids=["nothing", "another box", "another score", "another class", "another sample", "no number", "one more"],
)
def test_replies_differ_that_find_something_else(other, least):
    assert difference(other, [CAT]) >= least
    if not np.isnan(other).any():
        assert difference([CAT], other) == difference(other, [CAT])


def test_a_reply_of_an_odd_size_has_nothing_of_any():
    assert metric().difference(packed(CAT)[:-4], packed(CAT)) == 1
    assert metric().difference(packed(CAT), packed(CAT)[:-4]) == 1
