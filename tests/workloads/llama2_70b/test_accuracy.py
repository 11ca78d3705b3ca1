"""The metric against what the MLPerf Inference v4.1 reference printed (tests/data/llama2_70b/README.md)."""

import ast
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from mlbench_llama2_70b.accuracy import AnswerRouge
from mlbench_llama2_70b.mini_profile import MiniProfile
from sentence_data import split_after_capitals

from mlbench import InvalidRunError, LoggedReply
from mlbench.loadgen.logs import read_accuracy
from mlbench.rules.official import official_rules
from mlbench.toolkit.language import read_table, read_tokenizer

TARGETS = official_rules("llama2-70b").targets
PRINTED = {"ROUGE1": "rouge1", "ROUGE2": "rouge2", "ROUGEL": "rougeL", "TOKENS_PER_SAMPLE": "tokens_per_sample"}
"""What the official script prints for each score that the submission checker asks for."""


@pytest.fixture(scope="module")
def metric_for(golden):
    tokenizer = read_tokenizer(golden, sizes=(750,), end="</s>", end_id=2)
    references = read_table(golden / "dataset.pkl", texts=("output",)).texts["output"]

    def metric_for(dtype="int64", references=references):
        return AnswerRouge(references, tokenizer, targets=TARGETS, dtype=dtype, sentences=split_after_capitals)

    return metric_for


@pytest.mark.parametrize("case", ["log_int64", "log_int32"])
def test_a_log_gets_the_scores_and_the_line_of_the_reference(golden, metric_for, case):
    wanted = json.loads((golden / case / "expected.json").read_text())
    metric = metric_for(wanted["dtype"])
    scores = metric.score(read_accuracy(golden / case / "mlperf_log_accuracy.json"))
    names = {**PRINTED, "GEN_LEN": "gen_len"}
    named = {names.get(name, name): score for name, score in scores.items()}
    assert {name: named[name] for name in wanted["values"]} == wanted["values"]
    assert metric.line(scores) == wanted["printed_last_line"]


def test_an_answer_is_exact_letter_by_letter(metric_for):
    metric = metric_for(references=["The river rose. ", "the river rose."])
    ids = metric.tokenizer.encode("The river rose.").ids
    replies = [LoggedReply(index=index, data=np.array([*ids, 2], "<i8").tobytes()) for index in (0, 1)]
    scores = metric.score(replies)
    assert (scores["exact_match"], scores["ROUGE1"]) == (50, 100)


def test_a_reply_that_is_no_answer_names_its_sample(metric_for):
    with pytest.raises(InvalidRunError, match="sample 3 has 9 bytes"):
        metric_for().score([LoggedReply(index=3, data=bytes(9))])


class TestTargets:
    @pytest.mark.parametrize("variant", ["99", "99.9"])
    def test_the_numbers_pass_that_the_submission_checker_passes(self, golden, variant):
        cases = json.loads((golden / "accuracy_gate" / "cases.json").read_text())
        verdicts = json.loads((golden / "accuracy_gate" / "expected.json").read_text())["cases"]
        targets = [target for target in TARGETS if target.name == variant]
        assert {target.score for target in targets} == PRINTED.keys()
        tried = 0
        for case, verdict in zip(cases, verdicts, strict=True):
            line = next(line for line in case["accuracy_txt"].splitlines() if line.startswith("{"))
            is_about_numbers = "hash=" in case["accuracy_txt"] and "np." not in line and "'" in line
            if case["model"] == f"llama2-70b-{variant}" and is_about_numbers:
                scores = ast.literal_eval(line)
                assert all(target.is_met_by(scores[PRINTED[target.score]]) for target in targets) is verdict["valid"]
                tried += 1
        assert tried == {"99": 5, "99.9": 3}[variant]

    def test_only_the_first_variant_decides(self):
        assert {target.name for target in TARGETS if target.required} == {"99"}

    def test_only_on_mini_exact_answers_are_a_target(self):
        profile = replace(MiniProfile.shipped(), reference={**dict.fromkeys(PRINTED, 90), "exact_match": 70})
        (target,) = [target for target in profile.targets(official_rules("llama2-70b")) if target.score not in PRINTED]
        assert (target.score, target.lower, target.required) == ("exact_match", pytest.approx(67.9), True)


@pytest.mark.parametrize("score", sorted(PRINTED.values()))
def test_the_line_is_what_the_submission_checker_looks_for(metric_for, score):
    scores = {"ROUGE1": 44.4, "ROUGE2": 22.0, "ROUGEL": 28.6, "GEN_LEN": 9, "gen_num": 2, "TOKENS_PER_SAMPLE": 294.4}
    line = metric_for().line({**scores, "exact_match": 3.0})
    assert re.match(rf".*'{score}':\s([\d.]+).*", line)
    assert "exact_match" not in line
