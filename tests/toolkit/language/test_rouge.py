"""ROUGE against the values of the official scripts (MLPerf Inference v4.1) on synthetic texts."""

import json
import logging
from pathlib import Path

import pytest
from mlbench_gptj.accuracy import SummaryRouge
from sentence_data import install_sentences, split_after_capitals

from mlbench import UsageError
from mlbench.toolkit.language.rouge import check_sentences, punkt_sentences, rouge, sentence_lines, text_scores

DATA = Path(__file__).parents[2] / "data"
WORKLOADS = ["gptj", "llama2_70b", "mixtral_8x7b"]


def loaded(workload, name):
    return json.loads((DATA / workload / name).read_text())


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_set_of_pairs_has_the_official_scores(workload):
    pairs, wanted = loaded(workload, "rouge_prejoined/pairs.json"), loaded(workload, "rouge_prejoined/expected.json")
    predictions, references = ([pair[side] for pair in pairs] for side in ("prediction", "reference"))
    assert rouge(predictions, references, has_sentences=True) == wanted["aggregate"]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_each_pair_has_the_official_scores(workload):
    pairs, wanted = loaded(workload, "rouge_prejoined/pairs.json"), loaded(workload, "rouge_prejoined/expected.json")
    for pair, scores in zip(pairs, wanted["per_pair"], strict=True):
        found = rouge([pair["prediction"]], [pair["reference"]], has_sentences=True)
        assert found == {name: round(100 * scores[name], 4) for name in found}, pair["name"]
        assert list(found) == ["rouge1", "rouge2", "rougeL", "rougeLsum"]


def test_scores_are_plain_numbers():
    assert {type(score) for score in rouge(["a b"], ["a c"], has_sentences=True).values()} == {float}


@pytest.mark.parametrize("case", loaded("gptj", "sentence_split/expected.json")["cases"], ids=lambda case: case["text"])
def test_punkt_finds_the_official_sentences(case):
    sentences = punkt_sentences()
    if sentences is None:
        pytest.skip("NLTK's sentence data is not installed")
    assert sentence_lines(case["text"], sentences) == case["joined"]


class TestWithoutPunkt:
    """NLTK's sentence data is missing, as on most machines."""

    @pytest.fixture(autouse=True)
    def no_data(self, monkeypatch):
        def missing(text):
            raise LookupError("Resource 'punkt_tab' not found.")

        monkeypatch.setattr("nltk.sent_tokenize", missing)

    def test_only_rougelsum_is_missing_and_the_log_says_so(self, caplog):
        text, reference = "One came. Two  went.\n", "One came. Two stayed."
        with caplog.at_level(logging.WARNING):
            found = text_scores([text], [reference])
        with_sentences = text_scores([text], [reference], split_after_capitals)
        assert with_sentences.keys() - found.keys() == {"rougeLsum"}
        assert found.items() < with_sentences.items()
        assert "punkt_tab" in caplog.text

    @pytest.mark.parametrize(
        "case", loaded("gptj", "sentence_split/expected.json")["cases"], ids=lambda case: case["text"]
    )
    def test_a_text_has_as_many_characters_as_with_sentences(self, case):
        assert len(sentence_lines(case["text"], punkt_sentences())) == len(case["joined"])

    def test_a_workload_whose_scores_need_sentences_is_refused(self):
        with pytest.raises(UsageError, match="scores of x need NLTK's sentence data") as refused:
            check_sentences("x")
        assert "python -m nltk.downloader punkt_tab" in refused.value.hint

    def test_blanks_within_a_sentence_count(self):
        assert sentence_lines(" It  closed.\n\nIt rained. ", punkt_sentences()) == "It  closed.\nIt rained."


class TestWithPunkt:
    """NLTK's data is there: trained here on a few sentences, since it cannot be downloaded in a test."""

    ANSWER = "It rained. Dr. Li went home. All slept."

    @pytest.fixture
    def punkt(self, tmp_path, monkeypatch):
        """Return a function that installs data trained on some text."""
        import nltk
        from nltk.tokenize import _get_punkt_tokenizer

        def install(text):
            install_sentences(tmp_path / str(len(text)), text, monkeypatch)

        monkeypatch.setattr(nltk.data, "path", [])
        _get_punkt_tokenizer.cache_clear()
        yield install
        _get_punkt_tokenizer.cache_clear()

    def test_a_metric_says_which_data_it_splits_with(self, punkt):
        assert set(metric().computed_with().values()) == {"no sentence data"}
        punkt("It rained. All slept. Nobody came.")
        one = metric().computed_with()
        assert one.keys() == {"rougeLsum", "GEN_LEN"}
        punkt("Dr. Wu came. Dr. Li went. Dr. Ho stayed. " * 20)
        assert metric().computed_with() != one

    @pytest.mark.parametrize("said", [{"GEN_LEN": "no sentence data"}, {}], ids=["said", "older record"])
    def test_scores_that_were_computed_without_are_computed_without(self, punkt, said):
        without = text_scores([self.ANSWER], [self.ANSWER], metric().as_computed(said, {"ROUGE1", "GEN_LEN"}).sentences)
        punkt("It rained. All slept. Nobody came.")
        assert "rougeLsum" in text_scores([self.ANSWER], [self.ANSWER], metric().sentences)
        same = metric().as_computed(said, without.keys())
        assert text_scores([self.ANSWER], [self.ANSWER], same.sentences) == without
        assert set(same.computed_with().values()) == {"no sentence data"}


def metric():
    return SummaryRouge([TestWithPunkt.ANSWER], tokenizer=None, targets=())
