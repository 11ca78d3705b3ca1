"""The metric against what the MLPerf Inference v4.1 reference printed (tests/data/mixtral_8x7b/README.md)."""

import ast
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from mlbench_mixtral_8x7b.accuracy import MixedScores
from mlbench_mixtral_8x7b.dataset import Task
from mlbench_mixtral_8x7b.mini_profile import MiniProfile
from sentence_data import split_after_capitals

from mlbench import InvalidRunError, LoggedReply
from mlbench.loadgen.logs import read_accuracy
from mlbench.rules.official import official_rules
from mlbench.toolkit.language import read_table, read_tokenizer

TARGETS = official_rules("mixtral-8x7b").targets
PRINTED = {
    **{"ROUGE1": "rouge1", "ROUGE2": "rouge2", "ROUGEL": "rougeL", "TOKENS_PER_SAMPLE": "tokens_per_sample"},
    **{"gsm8k_accuracy": "gsm8k", "mbxp_accuracy": "mbxp"},
}
"""What the official script prints for each score that the submission checker asks for."""


@pytest.fixture(scope="module")
def metric_for(golden):
    tokenizer = read_tokenizer(golden, sizes=(897,), end="</s>", end_id=2)
    columns = read_table(golden / "dataset.pkl", texts=("dataset", "id", "gt_output")).texts
    rows = zip(columns["dataset"], columns["id"], columns["gt_output"], strict=True)
    tasks = [Task(dataset=dataset, id=id_, truth=truth) for dataset, id_, truth in rows]

    def metric_for(dtype="int64", tasks=tasks):
        return MixedScores(tasks, tokenizer, targets=TARGETS, dtype=dtype, sentences=split_after_capitals)

    return metric_for


@pytest.mark.slow
@pytest.mark.parametrize("case", ["full_log_int64", "full_log_int32"])
def test_a_log_gets_the_scores_and_the_line_of_the_reference(golden, metric_for, case):
    wanted = json.loads((golden / case / "expected.json").read_text())
    metric = metric_for(wanted["dtype"])
    scores = metric.score(read_accuracy(golden / case / "mlperf_log_accuracy.json"))
    names = {**PRINTED, "GEN_LEN": "gen_len"}
    assert {names.get(name, name): score for name, score in scores.items()} == wanted["values"]
    assert metric.line(scores) == wanted["printed_last_line"]


def answered(metric, *texts):
    """Return a log with these answers."""
    ids = [[*metric.tokenizer.encode(text).ids, 2] for text in texts]
    return [LoggedReply(index=index, data=np.array(row, "<i8").tobytes()) for index, row in enumerate(ids)]


def test_a_data_set_without_answers_has_no_score_and_mbxp_none(metric_for):
    metric = metric_for(tasks=[Task(dataset="GSM8K", id="train.1", truth="7")])
    scores = metric.score(answered(metric, "The answer is 7"))
    assert (scores["gsm8k_accuracy"], scores["mbxp_accuracy"], scores["GEN_LEN"]) == (100, 0, 0)
    assert not {"ROUGE1", "rougeLsum"} & scores.keys()
    metric = metric_for(tasks=[Task(dataset="OpenOrca", id="flan.1", truth="The river.")])
    scores = metric.score(answered(metric, "The river."))
    assert (scores["ROUGE1"], scores["mbxp_accuracy"], scores["GEN_LEN"]) == (100, 0, 10)
    assert "gsm8k_accuracy" not in scores


def test_a_second_reply_counts_as_a_reply_and_nowhere_else(metric_for):
    metric = metric_for(tasks=[Task(dataset="GSM8K", id="train.1", truth="7")])
    (right,) = answered(metric, "The answer is 7")
    (wrong,) = answered(metric, "The answer is 8")
    once, twice = metric.score([right]), metric.score([right, wrong])
    assert (once["gen_num"], twice["gen_num"]) == (1, 2)
    assert (twice["gsm8k_accuracy"], twice["gen_tok_len"]) == (100, once["gen_tok_len"])
    assert twice["TOKENS_PER_SAMPLE"] == once["TOKENS_PER_SAMPLE"] / 2


def test_a_reply_that_is_no_answer_names_its_sample(metric_for):
    with pytest.raises(InvalidRunError, match="sample 3 has 9 bytes"):
        metric_for().score([LoggedReply(index=3, data=bytes(9))])


class TestTargets:
    def test_the_numbers_pass_that_the_submission_checker_passes(self, golden):
        cases = json.loads((golden / "accuracy_gate" / "cases.json").read_text())
        verdicts = json.loads((golden / "accuracy_gate" / "expected.json").read_text())["cases"]
        assert {target.score for target in TARGETS} == PRINTED.keys()
        for case, verdict in zip(cases, verdicts, strict=True):
            scores = ast.literal_eval(case["accuracy_txt"].splitlines()[0])
            is_met = all(target.is_met_by(scores.get(PRINTED[target.score], float("nan"))) for target in TARGETS)
            assert is_met is verdict["valid"], case["name"]

    def test_all_are_required(self):
        assert {(target.name, target.required) for target in TARGETS} == {("99", True)}

    def test_fewer_problems_have_wider_shares(self):
        profile = replace(MiniProfile.shipped(), reference=dict.fromkeys(PRINTED, 50))
        targets = {target.score: target.lower for target in profile.targets(official_rules("mixtral-8x7b"))}
        assert targets["gsm8k_accuracy"] == pytest.approx(48)
        assert targets["mbxp_accuracy"] == pytest.approx(47.5)
        assert targets["ROUGE1"] == pytest.approx(49.5)


@pytest.mark.parametrize("score", sorted(PRINTED.values()))
def test_the_line_is_what_the_submission_checker_looks_for(metric_for, score):
    line = metric_for().line(dict.fromkeys(PRINTED, 45.5))
    assert re.match(rf".*'{score}':\s([\d.]+).*", line)
