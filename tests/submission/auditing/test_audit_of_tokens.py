"""``mlbench audit --test TEST06`` under real LoadGen, with the verdict by hand on the log that it leaves."""

import json
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough("submission")


@pytest.fixture
def made(audited_chat):
    return audited_chat.made["TEST06"]


@pytest.fixture
def folder(made):
    return Path(made["folder"])


def as_tokens(text):
    """Return the 64-bit tokens of a field of the log."""
    data = bytes.fromhex(text)
    assert len(data) % 8 == 0
    return [int.from_bytes(data[place : place + 8], "little") for place in range(0, len(data), 8)]


def test_a_hundred_samples_are_sent_under_the_official_configuration(folder):
    text = (folder / "performance/mlperf_log_detail.txt").read_text()
    values = dict(re.findall(r'"key": "(\w+)", "value": (\w+),', text))
    wanted = {
        "effective_min_query_count": "100",
        "effective_min_duration_ms": "0",
        "effective_accuracy_log_sampling_target": "100",
        "effective_accuracy_log_rng_seed": "720381539243781796",
        "effective_sample_concatenate_permutation": "false",
        "result_query_count": "100",
    }
    assert {key: values[key] for key in wanted} == wanted


def test_the_verdict_is_the_one_by_hand_on_the_same_log(audited_chat, made, folder):
    entries = json.loads((folder / "performance/mlperf_log_accuracy.json").read_text())
    assert len(entries) == 100
    for entry in entries:
        answer = as_tokens(entry["data"])
        assert answer[:1] == as_tokens(entry["token_data"])
        assert (answer[-1], answer.count(2)) == (2, 1)  # the one end token, last
        assert len(answer) == entry["token_count"]
    assert (made["replies"]["official_passed"], made["replies"]["passed"], made["problems"]) == (True, True, [])
    assert (audited_chat.status, audited_chat.found["passed"]) == (0, True)


def test_the_files_are_those_of_a_submission(folder):
    assert (folder / "TEST06/verify_accuracy.txt").read_text() == (
        "First token check pass: True\n"
        "EOS check pass: True\n"
        "Sample length check pass: True\n"
        "TEST06 verification complete\n"
    )
    assert (folder / "TEST06/accuracy/mlperf_log_accuracy.json").is_file()
    assert not (folder / "TEST06/verify_performance.txt").exists()
