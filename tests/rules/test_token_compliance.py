"""TEST06 against what the official verification says (MLPerf Inference v4.1)."""

import json
from pathlib import Path

import pytest

from mlbench import LoggedReply
from mlbench.loadgen.logs import read_accuracy
from mlbench.rules.token_compliance import verify_test06

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
