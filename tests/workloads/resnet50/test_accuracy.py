import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from mlbench_resnet50.accuracy import Top1
from mlbench_resnet50.dataset import read_label_list

from mlbench import InvalidRunError, LoggedReply
from mlbench.rules.official import official_rules

TARGETS = official_rules("resnet50").targets

LOGS = [
    "accuracy_duplicates_first_wins",
    "accuracy_float32",
    "accuracy_int32",
    "accuracy_negative_and_top5_payload",
    "accuracy_subset",
]


def replies(*labels: float) -> list[LoggedReply]:
    """A log of float32 labels to samples 0, 1, 2, ..."""
    return [LoggedReply(index=i, data=np.float32(label).tobytes()) for i, label in enumerate(labels)]


def top1(labels: Sequence[int] = (5, 6, 7)) -> Top1:
    return Top1(labels, TARGETS)


@pytest.mark.parametrize("log", LOGS)
def test_the_official_script_prints_the_same_line_for_the_same_log(golden: Path, log: str):
    case = json.loads((golden / log / "expected.json").read_text())
    entries = json.loads((golden / log / "mlperf_log_accuracy.json").read_text())
    labels = [file.label for file in read_label_list(golden / log / "val_map.txt", classes=1000)]
    metric = Top1(labels, TARGETS, dtype=case["dtype"])

    scores = metric.score([LoggedReply(index=e["qsl_idx"], data=bytes.fromhex(e["data"])) for e in entries])

    assert metric.line(scores) == case["last_line"]
    assert (scores["good"], scores["total"]) == (case["good"], case["total"])
    assert scores["acc"] == pytest.approx(case["accuracy_percent"], abs=5e-4)


def test_int64_replies_are_read_too():
    metric = Top1([5, 6], TARGETS, dtype="int64")
    log = [LoggedReply(index=i, data=np.int64(5).tobytes()) for i in range(2)]
    assert metric.score(log) == {"acc": 50, "good": 1, "total": 2}


def test_a_fractional_label_is_truncated_not_rounded():
    assert top1().score(replies(5.9, 6.0, 7.9))["good"] == 3


def test_the_official_target_is_99_percent_of_the_reference_and_meeting_it_exactly_is_enough():
    (target,) = top1().targets
    assert (target.reference, target.name, target.required) == (76.46, "99", True)
    assert target.lower == pytest.approx(75.6954, abs=1e-9)
    assert target.is_met_by(76.46 * 0.99)
    assert not target.is_met_by(75.695)


@pytest.mark.parametrize("payload", [b"", b"\x00\x00\x00", b"\x00" * 6])
def test_a_reply_of_no_or_odd_size_makes_the_run_invalid_and_is_named(payload: bytes):
    with pytest.raises(InvalidRunError, match=f"sample 1 has {len(payload)} bytes"):
        top1().score([*replies(5), LoggedReply(index=1, data=payload)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reply_that_is_not_a_number_makes_the_run_invalid_and_is_named(value: float):
    with pytest.raises(InvalidRunError, match="sample 1 is"):
        top1().score(replies(5, value))


@pytest.mark.parametrize("index", [-1, 3])
def test_a_reply_to_an_unknown_sample_makes_the_run_invalid(index: int):
    with pytest.raises(InvalidRunError, match=f"sample {index} was answered, but there are 3"):
        top1().score([LoggedReply(index=index, data=np.float32(7).tobytes())])


def test_a_log_without_replies_has_no_score():
    with pytest.raises(InvalidRunError, match="no replies"):
        top1().score([])
