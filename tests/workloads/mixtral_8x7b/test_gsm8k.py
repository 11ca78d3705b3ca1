"""Numbers in answers against MLPerf Inference v4.1 (tests/data/mixtral_8x7b/README.md)."""

import json
from pathlib import Path

import pytest
from mlbench_mixtral_8x7b.gsm8k import conclusion, is_right, numbers

CASES = Path(__file__).parents[2] / "data" / "mixtral_8x7b" / "gsm8k_extract" / "expected.json"


@pytest.mark.parametrize("case", json.loads(CASES.read_text())["cases"], ids=lambda case: repr(case["text"]))
def test_an_answer_comes_to_the_official_number(case):
    assert numbers(case["text"]) == case["all_numbers"]
    assert conclusion(case["text"]) == case["extracted"]
    assert is_right(case["text"], case["reference"]) is case["correct"]
