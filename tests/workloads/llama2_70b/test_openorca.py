"""The official table made from the public one, against MLPerf Inference v4.1 (tests/data/llama2_70b/README.md)."""

import json
import sys

import pytest
from mlbench_llama2_70b.dataset import Conversations
from mlbench_llama2_70b.openorca import (
    calibration,
    conversations,
    draw_conversations,
    filter_conversations,
    main,
    write_tables,
)
from tokenizers import Tokenizer

from mlbench import DataError


@pytest.fixture(scope="module")
def expected(golden):
    return json.loads((golden / "openorca_filter" / "expected.json").read_text())


@pytest.fixture(scope="module")
def rows(golden):
    folder = golden / "openorca_filter"
    return list(conversations(folder / "rows.json", Tokenizer.from_file(str(folder / "tokenizer.json"))))


def ids(rows):
    return [row.id for row in rows]


def test_prompts_and_tokens_are_the_official_ones(rows, expected):
    by_id = {row.id: row for row in rows}
    assert len(rows) == expected["stages"]["loaded"]
    assert {row.id: [len(row.tok_input), len(row.tok_output)] for row in rows} == expected["tok_lengths"]
    for wanted in expected["formatted_examples"]:
        assert by_id[wanted["id"]].input == wanted["input"]
        assert by_id[wanted["id"]].tok_input == wanted["tok_input"]


def test_each_filter_leaves_what_the_official_one_leaves(rows, expected):
    stages, limit = expected["stages"], expected["io_token_limit"]
    english = [row for row in rows if row.is_english]
    assert ids(english) == stages["after_english"]
    shorter = [row for row in english if row.is_shorter(limit)]
    assert ids(shorter) == stages["after_length"]
    answered = [row for row in shorter if row.has_answer]
    assert ids(answered) == stages["after_short_response"]
    fit = [row for row in answered if row.is_fit]
    assert ids(fit) == stages["after_bad_prompts"]
    assert filter_conversations(rows, limit=limit) == fit


def test_a_prompt_or_an_answer_at_the_limit_is_too_long(rows):
    at = max(len(rows[0].tok_input), len(rows[0].tok_output))
    assert not rows[0].is_shorter(at)
    assert rows[0].is_shorter(at + 1)


def test_samples_are_drawn_in_the_official_order(rows, expected):
    chosen = draw_conversations(
        filter_conversations(rows, limit=expected["io_token_limit"]), per_origin=expected["n_total"] // 4
    )
    assert ids(chosen) == expected["sampled_ids_in_order"]
    assert ids(calibration(chosen, count=expected["calibration_size"])) == expected["calibration_ids_in_order"]
    assert list(chosen[0].row()) == expected["final_columns"]


def test_an_origin_with_too_few_conversations_is_named(rows):
    with pytest.raises(DataError, match="niv has 4 conversations, expected 6"):
        draw_conversations(filter_conversations(rows, limit=400), per_origin=6)


def test_the_tables_are_those_that_the_full_profile_reads(golden, expected, tmp_path):
    folder = golden / "openorca_filter"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    write_tables(folder / "rows.json", tokenizer, tmp_path / "out", limit=400, per_origin=4, calibrated=6)
    assert Conversations(tmp_path / "out" / "dataset.json", count=16).count == 16
    rows = json.loads((tmp_path / "out" / "calibration.json").read_text())
    assert [row["id"] for row in rows] == expected["calibration_ids_in_order"]


def test_the_command_says_in_one_line_what_is_wrong_and_leaves_nothing(golden, monkeypatch, tmp_path):
    folder, out = golden / "openorca_filter", tmp_path / "out"
    arguments = ["--raw", str(folder / "rows.json"), "--tokenizer", str(folder), "--out", str(out)]
    monkeypatch.setattr(sys, "argv", ["openorca", *arguments])
    with pytest.raises(SystemExit, match="the model's tokenizer 32000") as caught:
        main()
    assert "\n" not in str(caught.value)
    assert not out.exists()
