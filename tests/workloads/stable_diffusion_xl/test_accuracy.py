import gzip
import hashlib
import json
import re

import numpy as np
import pytest
from mlbench_stable_diffusion_xl.accuracy import ImageQuality, Judges
from mlbench_stable_diffusion_xl.captions import read_captions
from mlbench_stable_diffusion_xl.fid import Statistics, read_statistics

from mlbench import InvalidRunError, LoggedReply
from mlbench.rules.official import official_rules
from mlbench.rules.scoring import score

TARGETS = official_rules("stable-diffusion-xl").targets


def grey(level):
    return np.full((4, 4, 3), level, np.uint8)


def reply(index, image):
    return LoggedReply(index=index, data=image.tobytes())


def judges(**changes):
    """Feature: the mean level. CLIP score: the red level of the first pixel."""
    fields = {
        "reference": Statistics(np.array([10.0]), np.array([[4.0]])),
        "features": lambda images: images.mean(axis=(1, 2, 3), dtype=np.float64)[:, None],
        "clip": lambda image, caption: float(image[0, 0, 0]),
    }
    return Judges(**{**fields, **changes})


def metric(captions=("a", "b", "c"), **changes):
    return ImageQuality(lambda: judges(**changes), captions, (4, 4), TARGETS)


@pytest.fixture(scope="module")
def case(golden):
    return json.loads((golden / "log_images" / "expected.json").read_text())


@pytest.fixture(scope="module")
def replies(golden):
    log = json.loads(gzip.decompress((golden / "log_images" / "mlperf_log_accuracy.json.gz").read_bytes()))
    return [LoggedReply(index=entry["qsl_idx"], data=bytes.fromhex(entry["data"])) for entry in log]


@pytest.fixture(scope="module")
def official(golden):
    def features(images):
        return images.mean(axis=(1, 2), dtype=np.float64) / 255 + 0.1

    def clip(image, caption):
        words = [len(caption) / 50, len(caption.split()) / 10, sum(c in "aeiou" for c in caption.lower()) / 20]
        seen, read = (np.array(vector, np.float32) for vector in (features(image[None])[0], words))
        return float(100 * (seen / np.linalg.norm(seen)) @ (read / np.linalg.norm(read)))

    folder = golden / "log_images"
    captions = read_captions(folder / "captions.tsv", count=3).texts
    toys = Judges(reference=read_statistics(folder / "statistics.npz"), features=features, clip=clip)
    return ImageQuality(lambda: toys, captions, (1024, 1024), TARGETS)


class TestOfficialLog:
    """The log, captions and toy networks of the official script's own run."""

    def test_the_scores_are_the_official_ones(self, official, replies, case):
        scores = official.score(replies)
        for name, wanted in case["toy_results"].items():
            assert scores[name] == pytest.approx(wanted, abs=case["tolerance"][f"{name}_abs"])

    def test_the_first_reply_to_each_sample_counts(self, official, replies, case):
        found = {str(i): hashlib.sha256(image.tobytes()).hexdigest() for i, image in official.images(replies)}
        assert found == case["image_sha256"]
        assert list(found) == [str(index) for index in case["order"]]
        assert len(replies) == len(found) + case["duplicates_ignored"]

    def test_the_line_is_the_official_one(self, official, case):
        assert official.line(case["toy_results"]) == case["printed_line_form"]


def test_numpys_numbers_are_printed_as_plain_ones():
    line = metric().line({"FID_SCORE": np.float64(23.45), "CLIP_SCORE": np.float64(31.75)})
    assert line == "Accuracy Results: {'FID_SCORE': 23.45, 'CLIP_SCORE': 31.75}"


def test_the_official_limits_judge_as_the_submission_checker(golden):
    folder = golden / "accuracy_gate"
    wanted = {case["name"]: case["valid"] for case in json.loads((folder / "expected.json").read_text())["cases"]}
    judged = 0
    for case in json.loads((folder / "cases.json").read_text()):
        scores = dict(re.findall(r"'(\w+)': ([\d.]+)", case["accuracy_txt"]))
        if not scores or "hash=" not in case["accuracy_txt"]:
            continue  # these are about how the file is written
        judged += 1
        is_met = all(target.is_met_by(float(scores[target.score])) for target in TARGETS)
        assert is_met == wanted[case["name"]], case["name"]
    assert judged == 7


def test_fid_and_clip_are_scored_by_hand_sums():
    # levels 8, 10, 12: mean 10, variance 4, as the reference; the red of the first pixels averages 10
    replies = [reply(index, grey(level)) for index, level in enumerate((8, 10, 12))]
    assert metric().score(replies) == pytest.approx({"FID_SCORE": 0, "CLIP_SCORE": 10})
    # five levels lighter: the means are 5 apart, and 5 squared is the distance
    lighter = [reply(index, grey(level + 5)) for index, level in enumerate((8, 10, 12))]
    assert metric().score(lighter) == pytest.approx({"FID_SCORE": 25, "CLIP_SCORE": 15})


def test_where_somebody_reads_digits_their_rate_is_scored_too():
    replies = [reply(index, grey(level)) for index, level in enumerate((8, 10, 12))]
    scores = metric(is_right=lambda image, caption: caption != "b").score(replies)
    assert scores["DIGIT_RATE"] == pytest.approx(200 / 3)


def test_each_image_is_compared_with_its_own_caption():
    pairs = []
    images = {2: grey(3), 0: grey(1), 1: grey(2)}
    watched = metric(clip=lambda image, caption: pairs.append((int(image[0, 0, 0]), caption)) or 0.0)
    watched.score([reply(index, image) for index, image in images.items()])
    assert pairs == [(3, "c"), (1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("replies", "complaint"),
    [
        ([reply(0, grey(1)[:3])], "reply to sample 0 has 36 bytes, not 48"),
        ([LoggedReply(index=1, data=b"")], "reply to sample 1 has 0 bytes"),
        ([reply(3, grey(1))], "sample 3 was answered, but there are 3 samples"),
        ([reply(0, grey(1))], "1 samples were answered; FID needs two"),
    ],
)
def test_replies_that_cannot_be_scored_make_the_run_invalid(replies, complaint):
    with pytest.raises(InvalidRunError, match=complaint):
        score(metric(), replies)


def test_a_reply_differs_by_its_pixels_on_average():
    image = np.full((4, 4, 3), 204, dtype=np.uint8)
    nearby = image.copy()
    nearby[0] += 2  # a quarter of all
    difference = metric().difference
    assert difference(image.tobytes(), image.tobytes()) == 0
    assert difference(nearby.tobytes(), image.tobytes()) == difference(image.tobytes(), nearby.tobytes())
    assert difference(nearby.tobytes(), image.tobytes()) == pytest.approx(0.5 / 255)
    assert difference(np.zeros_like(image).tobytes(), image.tobytes()) == pytest.approx(0.8)
    assert difference(image.tobytes()[:-1], image.tobytes()) == 1
    assert difference(b"", b"") == 1


def test_images_to_look_at_are_written_beside_the_scores(tmp_path):
    replies = [reply(index, grey(index)) for index in range(20)]
    metric([f"caption {index}" for index in range(20)]).write_artifacts(replies, tmp_path)
    assert (tmp_path / "contact_sheet.png").is_file()
    lines = (tmp_path / "images" / "captions.txt").read_text().splitlines()
    assert len(lines) == 10
    assert all((tmp_path / "images" / f"{line.split()[0]}.png").is_file() for line in lines)
