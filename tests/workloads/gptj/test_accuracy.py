"""The metric against what the MLPerf Inference v4.1 reference printed (tests/data/gptj/README.md)."""

import ast
import json
import re

import numpy as np
import pytest
from mlbench_gptj.accuracy import SummaryRouge
from mlbench_gptj.mini_profile import MiniProfile
from sentence_data import split_after_capitals

from mlbench import InvalidRunError, LoggedReply
from mlbench.loadgen.logs import read_accuracy
from mlbench.rules.official import official_rules
from mlbench.toolkit.language import read_table, read_tokenizer

TARGETS = official_rules("gptj").targets
PRINTED = {"ROUGE1": "rouge1", "ROUGE2": "rouge2", "ROUGEL": "rougeL", "GEN_LEN": "gen_len"}
"""What the official script prints for each score that the submission checker asks for."""


@pytest.fixture(scope="module")
def metric_for(golden):
    tokenizer = read_tokenizer(golden, sizes=(629,), end="<|endoftext|>", end_id=628)
    references = read_table(golden / "cnn_eval.json", texts=("output",)).texts["output"]

    def metric_for(dtype="int64", references=references):
        return SummaryRouge(references, tokenizer, targets=TARGETS, dtype=dtype, sentences=split_after_capitals)

    return metric_for


@pytest.mark.parametrize("case", ["log_int64", "log_int32"])
def test_a_log_gets_the_scores_and_the_line_of_the_reference(golden, metric_for, case):
    wanted = json.loads((golden / case / "expected.json").read_text())
    metric = metric_for(wanted["dtype"])
    scores = metric.score(read_accuracy(golden / case / "mlperf_log_accuracy.json"))
    assert {PRINTED.get(name, name): score for name, score in scores.items()} == wanted["values"]
    assert metric.line(scores) == wanted["printed_last_dict"]


def test_blanks_before_punctuation_are_dropped_before_scoring(metric_for):
    metric = metric_for(references=["It did n't rise . It fell ."])
    ids = metric.tokenizer.encode("It did n't rise . It fell .").ids
    scores = metric.score([LoggedReply(index=0, data=np.array(ids, "<i8").tobytes())])
    assert scores["GEN_LEN"] == len("It didn't rise.\nIt fell.")


def test_a_reply_that_is_no_summary_names_its_sample(metric_for):
    with pytest.raises(InvalidRunError, match="sample 3 has 9 bytes"):
        metric_for().score([LoggedReply(index=3, data=bytes(9))])
    with pytest.raises(InvalidRunError, match="sample 12 was answered, but there are 12"):
        metric_for().score([LoggedReply(index=12, data=bytes(8))])


def test_tipped_tokens_differ_by_their_share_and_another_article_s_summary_wholly(golden, metric_for):
    first, second, *_ = read_accuracy(golden / "log_int64" / "mlperf_log_accuracy.json")
    tipped = np.frombuffer(first.data, "<i8").copy()
    tipped[-5:] = 1
    assert metric_for().difference(tipped.tobytes(), first.data) == pytest.approx(5 / len(tipped))
    assert metric_for().difference(second.data, first.data) > 0.5


class TestTargets:
    @pytest.mark.parametrize("variant", ["99", "99.9"])
    def test_the_numbers_pass_that_the_submission_checker_passes(self, golden, variant):
        cases = json.loads((golden / "accuracy_gate" / "cases.json").read_text())
        verdicts = json.loads((golden / "accuracy_gate" / "expected.json").read_text())["cases"]
        targets = [target for target in TARGETS if target.name == variant]
        assert {target.score for target in targets} == PRINTED.keys()
        tried = 0
        for case, verdict in zip(cases, verdicts, strict=True):
            line = case["accuracy_txt"].splitlines()[0]
            if case["model"] == f"gptj-{variant}" and "hash=" in case["accuracy_txt"] and "np." not in line:
                scores = ast.literal_eval(line)
                assert all(target.is_met_by(scores[PRINTED[target.score]]) for target in targets) is verdict["valid"]
                tried += 1
        assert tried == {"99": 5, "99.9": 1}[variant]

    def test_only_the_first_variant_decides(self):
        assert {target.name for target in TARGETS if target.required} == {"99"}

    def test_only_on_mini_summaries_can_be_too_long(self):
        assert {target.upper for target in TARGETS} == {None}
        (limited, _) = [target for target in MiniProfile.shipped().targets(official_rules("gptj")) if target.upper]
        assert (limited.score, limited.reference) == ("GEN_LEN", 10555)
        assert limited.upper == pytest.approx(11610.5)


@pytest.mark.parametrize("score", sorted(PRINTED.values()))
def test_the_line_is_what_the_submission_checker_looks_for(metric_for, score):
    line = metric_for().line({"ROUGE1": 42.9865, "ROUGE2": 20.1, "ROUGEL": 30.0, "GEN_LEN": 4016878, "gen_num": 2})
    assert re.match(rf".*'{score}':\s([\d.]+).*", line)
    assert "rougeLsum" not in line
