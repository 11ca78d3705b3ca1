"""TEST06 against what the official verification says (MLPerf Inference v4.1)."""

import json
from pathlib import Path

import pytest

from mlbench import LoggedReply
from mlbench.loadgen.logs import read_accuracy
from mlbench.rules.official import round_named
from mlbench.rules.token_compliance import verify_official_test06, verify_test06

CASES = sorted((Path(__file__).parents[1] / "data" / "llama2_70b" / "test06").iterdir())


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_a_log_gets_the_official_report(folder):
    wanted = json.loads((folder / "expected.json").read_text())
    found = verify_test06(
        read_accuracy(folder / "mlperf_log_accuracy.json"),
        has_first=wanted["scenario"] != "Offline",
        dtype=wanted["dtype"],
        end_token=wanted["eos_token_id"],
    )
    assert found.report == wanted["verify_accuracy_txt"]
    assert found.passed is wanted["verification_complete"]


def test_bytes_that_are_no_tokens_have_the_wrong_length():
    reply = LoggedReply(index=0, data=bytes(9), token_count=1)
    assert not verify_test06([reply], has_first=False).length


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_official_verdict_is_the_official_report(folder):
    wanted = json.loads((folder / "expected.json").read_text())
    found = verify_official_test06(
        read_accuracy(folder / "mlperf_log_accuracy.json"),
        has_first=wanted["scenario"] != "Offline",
        dtype=wanted["dtype"],
        end_token=wanted["eos_token_id"],
    )
    assert found.report == wanted["verify_accuracy_txt"]


def tokens(*values):
    return b"".join(value.to_bytes(8, "little") for value in values)


def test_two_end_tokens_alone_are_an_answer_in_v41_and_not_later():
    reply = LoggedReply(index=0, data=tokens(2, 2), token_data=tokens(2), token_count=2)
    for name, passed in (("v4.1", True), ("v5.0", False), ("v6.1", False)):
        allowed = round_named(name).compliance.allows_two_end_tokens
        for verify in (verify_test06, verify_official_test06):
            assert verify([reply], has_first=True, allows_two_ends=allowed).passed is passed, name


def test_an_end_token_given_on_the_command_line_lets_the_official_script_pass_five_of_them():
    reply = LoggedReply(index=0, data=tokens(5, 2, 2, 2, 2, 2), token_data=tokens(5), token_count=6)
    by_default, given = (verify_official_test06([reply], has_first=True, end_token=each) for each in (2, "2"))
    assert (by_default.passed, given.passed) == (False, True)
    assert not verify_test06([reply], has_first=True).passed


def test_a_first_token_that_was_never_reported_passes_the_official_script_and_not_ours():
    reply = LoggedReply(index=0, data=tokens(5, 6, 2), token_data=b"", token_count=3)
    assert verify_official_test06([reply], has_first=True).passed
    assert verify_test06([reply], has_first=True).first_token is False
