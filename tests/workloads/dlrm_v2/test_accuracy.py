import json
import random

import numpy as np
import pytest
from mlbench_dlrm_v2.accuracy import ClickAuc
from mlbench_dlrm_v2.dataset import Truth

from mlbench import InvalidRunError, LoggedReply
from mlbench.rules.official import official_rules

TARGETS = official_rules("dlrm-v2").targets

LOGS = [
    "accuracy_duplicates",
    "accuracy_extreme_scores",
    "accuracy_labels_from_day23",
    "accuracy_tied_predictions",
    "accuracy_with_labels",
]

ROWS = Truth(np.array([0, 0, 1, 1], dtype=np.int32), starts=np.array([0, 1]), ends=np.array([1, 4]))
"""Two samples, of one row and of three."""


def read_log(folder):
    entries = json.loads((folder / "mlperf_log_accuracy.json").read_text())
    return [LoggedReply(index=entry["qsl_idx"], data=bytes.fromhex(entry["data"])) for entry in entries]


def truth_of(folder):
    """The labels that the official script reads beside a log; none where the log has them."""
    if not (folder / "day_23").exists():
        return None
    lines = (folder / "day_23").read_text().splitlines()
    trace = (folder / "dlrm_trace_of_aggregated_samples.txt").read_text().splitlines()
    starts, ends, _ = np.array([line.split(", ") for line in trace], dtype=int).T
    return Truth(np.array([int(line.partition("\t")[0]) for line in lines]), starts, ends)


def reply(index, *predictions):
    return LoggedReply(index=index, data=np.array(predictions, dtype="<f4").tobytes())


def auc(truth=ROWS):
    return ClickAuc(truth, TARGETS)


@pytest.mark.parametrize("log", LOGS)
def test_the_official_script_prints_the_same_line_for_the_same_log(golden, log):
    case = json.loads((golden / log / "expected.json").read_text())
    metric = auc(truth_of(golden / log))

    scores = metric.score(read_log(golden / log))

    assert metric.line(scores) == case["last_line"]
    assert scores["AUC"] / 100 == pytest.approx(case["auc"], abs=case["tolerance"]["auc_abs"])
    assert [scores[name] for name in ("good", "total", "queries")] == [
        case[name] for name in ("good", "total", "queries")
    ]


def test_a_shuffled_log_gives_the_same_scores(golden):
    folder = golden / "accuracy_labels_from_day23"
    log = read_log(folder)
    shuffled = random.Random(0).sample(log, len(log))
    assert auc(truth_of(folder)).score(shuffled) == auc(truth_of(folder)).score(log)


def test_of_four_pairs_three_are_in_order_and_three_of_four_guesses_are_right():
    # clicked: 0.35 and 0.8, not clicked: 0.1 and 0.4; only 0.35 is below a row that was not clicked
    scores = auc().score([reply(0, 0.1), reply(1, 0.4, 0.35, 0.8)])
    assert scores == {"AUC": 75, "accuracy": 75, "good": 3, "total": 4, "queries": 2}


def test_equal_predictions_earn_half_and_one_half_rounds_to_no_click():
    scores = auc().score([reply(1, 0.5, 0.5, 0.5), reply(0, 0.5)])
    assert (scores["AUC"], scores["good"]) == (50, 2)


def test_of_two_replies_to_a_sample_the_first_counts():
    log = [reply(0, 0.1), reply(1, 0.4, 0.35, 0.8), reply(0, 0.9)]
    assert auc().score(log) == auc().score(log[:2])


def test_a_reply_to_the_wrong_sample_is_seen_since_it_brings_no_labels():
    truth = Truth(np.array([0, 0, 1, 1]), starts=np.array([0, 2]), ends=np.array([2, 4]))
    right, swapped = [reply(0, 0.1, 0.2), reply(1, 0.8, 0.9)], [reply(1, 0.1, 0.2), reply(0, 0.8, 0.9)]
    assert auc(truth).score(right)["AUC"] == 100
    assert auc(truth).score(swapped)["AUC"] == 0


def test_targets_are_the_official_shares_of_the_reference():
    required, stricter = auc().targets
    assert (required.lower, stricter.lower) == pytest.approx((79.5069, 80.22969))
    assert (required.name, required.required) == ("99", True)
    assert (stricter.name, stricter.required) == ("99.9", False)


@pytest.mark.parametrize(
    ("log", "complaint"),
    [
        ([reply(0)], "sample 0 has 0 bytes, not one float32 for each of its 1 rows"),
        ([reply(1, 0.4, 0.3)], "sample 1 has 8 bytes, not one float32 for each of its 3 rows"),
        ([reply(2, 0.4)], "sample 2 was answered, but there are 2 samples"),
        ([reply(-1, 0.4)], "sample -1 was answered"),
        ([reply(1, 0.4, np.nan, 0.3)], "sample 1 contains a prediction that is not a number"),
        ([reply(0, 0.4)], "labels of all 1 rows logged are alike"),
        ([], "labels of all 0 rows logged are alike"),
    ],
)
def test_a_log_that_cannot_be_scored_makes_the_run_invalid(log, complaint):
    with pytest.raises(InvalidRunError, match=complaint):
        auc().score(log)


@pytest.mark.parametrize("payload", [b"", b"\0" * 4, b"\0" * 12])
def test_a_reply_with_labels_must_be_pairs(payload):
    with pytest.raises(InvalidRunError, match=f"sample 5 has {len(payload)} bytes, not pairs"):
        auc(None).score([LoggedReply(index=5, data=payload)])


def test_a_label_that_is_none_makes_the_run_invalid():
    pairs = np.array([[0.1, 0], [0.2, 1], [0.3, 2]], dtype="<f4")
    with pytest.raises(InvalidRunError, match="a label is 2, not 0 or 1"):
        auc(None).score([LoggedReply(index=0, data=pairs.tobytes())])


def test_a_reply_differs_by_the_probability_that_moved_most():
    reference = np.full(200, 0.5, dtype="<f4")
    rounded, one_off = reference.copy(), reference.copy()
    rounded[::2] += 0.0001
    rounded[3] -= 0.0003
    one_off[7] = 0.8
    difference = auc().difference
    assert difference(reference.tobytes(), reference.tobytes()) == 0
    assert difference(rounded.tobytes(), reference.tobytes()) == pytest.approx(0.0003, rel=1e-3)
    assert difference(one_off.tobytes(), reference.tobytes()) == pytest.approx(0.3)
    assert difference(reference[:-1].tobytes(), reference.tobytes()) == 1
    assert difference(b"", b"") == 1
