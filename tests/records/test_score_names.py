"""Scores of older records have the names that the submission checker gives them, and nothing else is changed."""

import json
from pathlib import Path

import pytest

from mlbench.records.run_record import RunRecord
from mlbench.records.score_names import rename_scores

OLD = Path(__file__).parents[1] / "data" / "records" / "gptj-onnxruntime-Server.json"


@pytest.fixture
def old():
    """Return the fields of a record that an mlbench of format 2 stored."""
    return json.loads(OLD.read_text(encoding="utf-8"))


def test_a_stored_record_of_an_older_format_is_read_with_the_new_names_and_its_old_numbers(old):
    assert old["format"] == 2
    assert {target["score"] for target in old["accuracy"]["targets"]} == {"rouge1", "rouge2", "rougeL", "gen_len"}
    accuracy = RunRecord.model_validate(old).accuracy
    assert [(each.score, each.name, each.value) for each in accuracy.targets][:3] == [
        ("ROUGE1", "99", 99.2121),
        ("ROUGE1", "99.9", 99.2121),
        ("ROUGE2", "99", 98.888),
    ]
    assert {name: accuracy.scores[name] for name in ("ROUGE1", "ROUGEL", "GEN_LEN")} == {
        "ROUGE1": 99.2121,
        "ROUGEL": 98.9188,
        "GEN_LEN": 10555.0,
    }


def test_the_rule_of_a_score_is_renamed_with_its_variant_and_no_other_rule_is(old):
    before = [rule["rule"] for rule in old["verdict"]["rules"]]
    after = [rule["rule"] for rule in rename_scores(old)["verdict"]["rules"]]
    new = {"rouge1": "ROUGE1", "rouge2": "ROUGE2", "rougeL": "ROUGEL", "gen_len": "GEN_LEN"}
    changed = {was: now for was, now in zip(before, after, strict=True) if was != now}
    assert changed
    for was, now in changed.items():
        score, at, variant = was.removeprefix("accuracy.").partition("@")
        assert now == f"accuracy.{new[score]}{at}{variant}"
    assert {was for was in before if was.startswith("accuracy.")} == changed.keys()


@pytest.mark.parametrize(
    ("workload", "was", "now"),
    [
        ("resnet50", "top1", "acc"),
        ("bert", "f1", "F1"),
        ("3d-unet", "dice", "DICE"),
        ("mixtral-8x7b", "gsm8k", "gsm8k_accuracy"),
        ("mixtral-8x7b", "tokens_per_sample", "TOKENS_PER_SAMPLE"),
        ("bert", "top1", "top1"),
        ("retinanet", "mAP", "mAP"),
    ],
)
def test_a_score_is_renamed_where_its_workload_had_another_name_for_it(workload, was, now):
    accuracy = {"scores": {was: 1.0}, "targets": [{"score": was, "name": "99"}]}
    verdict = {"rules": [{"rule": f"accuracy.{was}@99"}, {"rule": f"accuracy.{was}"}, {"rule": was}]}
    found = rename_scores({"workload": workload, "accuracy": accuracy, "verdict": verdict})
    assert found["accuracy"] == {"scores": {now: 1.0}, "targets": [{"score": now, "name": "99"}]}
    assert [rule["rule"] for rule in found["verdict"]["rules"]] == [f"accuracy.{now}@99", f"accuracy.{now}", was]


@pytest.mark.parametrize(
    "changes",
    [
        {"accuracy": None},
        {"accuracy": "good"},
        {"accuracy": {"scores": [1], "targets": "many"}},
        {"accuracy": {"scores": None, "targets": [None, {"score": 7}, "x"]}, "verdict": 3},
        {"workload": ["gptj"]},
    ],
    ids=str,
)
def test_what_is_not_as_a_record_has_it_stays_as_it_is(old, changes):
    fields = {**old, "verdict": None, **changes}
    assert rename_scores(fields) == fields


def test_the_fields_that_were_given_are_not_changed(old):
    text = json.dumps(old)
    rename_scores(old)
    assert json.dumps(old) == text
