"""The metric against what the MLPerf Inference v5.1 script computes (tests/data/llama3_1_8b/README.md)."""

import ast
import json
import re

import numpy as np
import pytest
from mlbench_llama3_1_8b.accuracy import NewsRouge
from mlbench_llama3_1_8b.mini_profile import DATA, MiniProfile

from mlbench import InvalidRunError, LoggedReply
from mlbench.loadgen.logs import read_accuracy
from mlbench.toolkit.language import read_table
from mlbench.toolkit.language.rouge import unsplit

PRINTED = {
    "ROUGE1": "rouge1",
    "ROUGE2": "rouge2",
    "ROUGEL": "rougeL",
    "ROUGELSUM": "rougeLsum",
    "GEN_LEN": "gen_len",
    "gen_num": "gen_num",
}
"""What the official script prints for each score."""


@pytest.fixture(scope="module")
def tokenizer():
    return MiniProfile.shipped().tokenizer()


@pytest.fixture(scope="module")
def metric_for(golden, tokenizer):
    references = read_table(golden / "cnn_eval.json", texts=("output",)).texts["output"]

    def metric_for(dtype="int64", references=references, sentences=None):
        return NewsRouge(references, tokenizer, targets=(), dtype=dtype, sentences=sentences)

    return metric_for


def sentences_of(wanted):
    """Return what splits the texts of a log as Punkt with its English data did, and nothing else."""
    known = {each["text"].strip(): each["joined"] for part in ("sentences", "references") for each in wanted[part]}
    return lambda text: known[text].split("\n")


@pytest.mark.parametrize("case", ["log_int64", "log_int32"])
def test_a_log_gets_the_scores_of_the_official_script(golden, metric_for, case):
    wanted = json.loads((golden / case / "expected.json").read_text())
    metric = metric_for(wanted["dtype"], sentences=sentences_of(wanted))
    scores = metric.score(read_accuracy(golden / case / "mlperf_log_accuracy.json"))
    assert {PRINTED[name]: score for name, score in scores.items()} == wanted["values"]
    printed = ast.literal_eval(metric.line(scores))
    assert list(printed) == list(ast.literal_eval(wanted["printed"]))
    assert {name: float(value) for name, value in printed.items()} == wanted["values"]


def test_texts_are_tidied_as_the_tokenizer_of_the_model_says(golden, metric_for):
    wanted = json.loads((golden / "log_int64" / "expected.json").read_text())
    (third,) = [each for each in wanted["sentences"] if each["qsl_idx"] == 2]
    assert third["text"] == " It didn't rise. It fell, they say!"  # of tokens that say: It did n't rise . It fell , ...
    metric = metric_for(references=["a"], sentences=str.splitlines)
    ids = metric.tokenizer.encode(" It did n't rise . It fell , they say !", add_special_tokens=False).ids
    scores = metric.score([LoggedReply(index=0, data=np.array(ids, "<i8").tobytes())])
    assert scores["GEN_LEN"] == len(third["text"].strip())


def test_without_sentences_the_score_that_needs_them_is_missing_and_the_line_leaves_it_out(golden, metric_for):
    metric = metric_for(sentences=unsplit)
    scores = metric.score(read_accuracy(golden / "log_int64" / "mlperf_log_accuracy.json"))
    assert "ROUGELSUM" not in scores
    assert "rougeLsum" not in metric.line(scores)
    assert metric.computed_with().keys() == {"ROUGELSUM", "GEN_LEN"}


@pytest.mark.parametrize("score", sorted(PRINTED.values()))
def test_the_line_is_what_the_submission_checker_looks_for(metric_for, score):
    line = metric_for().line(dict.fromkeys(PRINTED, 38.7792))
    assert re.match(rf".*'{score}':\s'?([\d.]+)'?.*", line)


def test_a_reply_that_is_no_summary_names_its_sample(metric_for):
    with pytest.raises(InvalidRunError, match="sample 3 has 9 bytes"):
        metric_for().score([LoggedReply(index=3, data=bytes(9))])


def test_the_lines_of_a_shipped_highlight_are_its_sentences():
    """So the mini profile needs no data of NLTK's; Punkt with its English data was tried on all of them."""
    rows = json.loads((MiniProfile.shipped().folder / DATA).read_text())
    lines = [line for row in rows for line in row["output"].splitlines()]
    assert all(line.endswith(" .") and line.count(".") == 1 for line in lines)
