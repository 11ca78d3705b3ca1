import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from mlbench_resnet50.program import Classification, labels_from_classes, labels_from_logits


def mean_colours(inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """A network of three classes: the mean of each colour is its logit."""
    return {"logits": inputs["image"].mean(axis=(2, 3))}


def coloured(channel: int) -> np.ndarray:
    image = np.zeros((3, 4, 4), dtype=np.float32)
    image[channel] = 1
    return image


@pytest.mark.parametrize(
    ("path", "tensor", "read"),
    [("argmax_path", "argmax1001", labels_from_classes), ("logits_path", "logits1000", labels_from_logits)],
)
def test_labels_and_reply_bytes_equal_the_references(golden: Path, path: str, tensor: str, read):
    case = json.loads((golden / "postprocess" / "expected.json").read_text())[path]
    labels = read(np.load(golden / "postprocess" / "inputs.npz")[tensor])
    assert labels.shape == (len(case["labels"]), 1)
    assert labels[:, 0].tolist() == case["labels"]
    assert [reply.tobytes().hex().upper() for reply in labels] == case["response_hex"]


@pytest.mark.parametrize("channels", [[2], [0, 2, 1, 1]])
def test_a_batch_is_answered_in_the_order_of_its_samples(channels: list[int]):
    program = Classification(image="image", output="logits", labels=labels_from_logits)
    labels = program.run([coloured(channel) for channel in channels], {"classifier": mean_colours})
    assert labels.tolist() == [[channel] for channel in channels]
    assert labels.dtype == program.reply.dtype
    assert labels.shape[1:] == program.reply.shape


def test_a_nan_among_the_logits_is_not_hidden_behind_a_label():
    logits = np.array([[0, 3, 1], [0, np.nan, 9], [np.nan, np.nan, np.nan]], dtype=np.float32)
    np.testing.assert_array_equal(labels_from_logits(logits), [[1], [np.nan], [np.nan]])
