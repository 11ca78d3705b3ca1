"""The metric against values the MLPerf Inference v4.1 reference printed (tests/data/bert/README.md)."""

import json
from pathlib import Path

import numpy as np
import pytest
from mlbench_bert.accuracy import SquadF1, best_spans, normalise, project, squad_scores, token_f1
from mlbench_bert.squad import Vocabulary, Windows, read_features, read_questions

from mlbench import InvalidRunError, LoggedReply
from mlbench.rules.official import official_rules

TARGETS = official_rules("bert").targets

DATA = Path(__file__).parents[2] / "data" / "bert"
QUESTIONS = read_questions(DATA / "features" / "dev.json")
VOCABULARY = Vocabulary.read(DATA / "features" / "vocab.txt", size=298)
FEATURES = read_features(QUESTIONS, VOCABULARY, Windows())


def expected(case):
    return json.loads((DATA / case / "expected.json").read_text())


def logged(case):
    entries = json.loads((DATA / case / "mlperf_log_accuracy.json").read_text())
    return [LoggedReply(index=entry["qsl_idx"], data=bytes.fromhex(entry["data"])) for entry in entries]


def metric(**options):
    return SquadF1(QUESTIONS, FEATURES, VOCABULARY, tokens=384, targets=TARGETS, **options)


def reply(starts, ends, index=0):
    return LoggedReply(index=index, data=np.stack([starts, ends], axis=-1).astype("<f4").tobytes())


@pytest.mark.parametrize(
    "case",
    ["accuracy_float32", "accuracy_float16_interleaved", "accuracy_missing_features", "accuracy_tied_logits"],
)
def test_a_log_gets_the_answers_and_the_line_of_the_reference(case):
    wanted = expected(case)
    squad_f1 = metric(dtype=wanted["dtype"])
    assert squad_f1.answers(logged(case)) == wanted["predictions"]
    assert squad_f1.line(squad_f1.score(logged(case))) == wanted["last_line"]


@pytest.mark.parametrize("case", expected("text_projection")["cases"], ids=lambda case: case["pred_text"])
def test_a_predicted_text_is_projected_as_the_reference_does(case):
    assert project(case["pred_text"], case["orig_text"]) == case["final_text"]


@pytest.mark.parametrize("case", expected("squad_normalise_f1")["cases"], ids=lambda case: repr(case["prediction"]))
def test_texts_are_normalised_and_compared_as_the_reference_does(case):
    predicted = normalise(case["prediction"])
    rights = [normalise(text) for text in case["ground_truths"]]
    assert predicted == case["normalised_prediction"]
    assert rights == case["normalised_ground_truths"]
    assert any(predicted == right for right in rights) is case["exact_match"]
    assert max(token_f1(predicted, right) for right in rights) == pytest.approx(case["f1"], abs=1e-12)


def test_an_unanswered_question_scores_nothing_and_still_counts():
    answers = json.loads((DATA / "squad_evaluate" / "predictions.json").read_text())
    everything, first_four = expected("squad_evaluate")["cases"]
    assert metric().line(squad_scores(QUESTIONS, answers)) == everything["last_line"]
    assert metric().line(squad_scores(QUESTIONS[:4], answers)) == first_four["last_line"]


def test_a_reply_shorter_than_the_window_is_filled_up_with_minus_10000():
    case = expected("accuracy_float32")
    shorter = [
        LoggedReply(index=entry.index, data=entry.data[: 8 * len(FEATURES[entry.index].tokens.input_ids)])
        for entry in logged("accuracy_float32")
    ]
    filled = []
    for entry in shorter:
        tail = np.full((384 - len(entry.data) // 8, 2), -10000, "<f4")
        filled.append(LoggedReply(index=entry.index, data=entry.data + tail.tobytes()))
    assert metric().answers(shorter) == metric().answers(filled)
    assert metric().answers(shorter)["v0000000"] == case["predictions"]["v0000000"]


def test_all_starts_and_then_all_ends_is_read_with_the_transposed_layout():
    transposed = [
        LoggedReply(index=entry.index, data=np.frombuffer(entry.data, "<f4").reshape(-1, 2).T.tobytes())
        for entry in logged("accuracy_float32")
    ]
    assert metric(layout="transposed").answers(transposed) == expected("accuracy_float32")["predictions"]


def test_the_last_reply_to_a_sample_counts():
    log = logged("accuracy_float32")
    garbage = [LoggedReply(index=entry.index, data=bytes(len(entry.data))) for entry in log]
    assert metric().answers(garbage + log) == expected("accuracy_float32")["predictions"]


@pytest.mark.parametrize(("larger", "answer"), [(19, "very said"), (20, "empty")])
def test_padding_takes_up_places_among_the_20_candidates(larger, answer):
    starts, ends = np.zeros((2, 384))
    starts[15], ends[16] = 5, 5  # "very said", the passage's third and fourth word
    starts[300 : 300 + larger] = 9
    assert metric().answers([reply(starts, ends)])["v0000000"] == answer


def test_an_answer_has_30_tokens_at_most():
    logits = np.zeros((1, 384, 2))
    logits[0, 12, 0] = logits[0, 42, 1] = 9  # together 31 tokens
    logits[0, 41, 1] = 8
    assert list(best_spans(logits, FEATURES[:1])) == [(12, 41, 17.0)]


def test_logits_are_added_in_double_precision():
    starts, ends = np.full((2, 384), -100.0)
    starts[20], ends[20] = 2048, 0  # "how", of 2048
    starts[15], ends[16] = 2047, 2  # "very said", of 2049, which float16 rounds to 2048
    data = np.stack([starts, ends], axis=-1).astype("<f2").tobytes()
    assert metric(dtype="float16").answers([LoggedReply(index=0, data=data)])["v0000000"] == "very said"


def test_no_reply_at_all_answers_every_question_with_the_word_empty():
    assert set(metric().answers([]).values()) == {"empty"}


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "0 bytes"),
        (bytes(4), "4 bytes"),
        (bytes(9), "9 bytes"),
        (bytes(8 * 385), "3080 bytes"),
        (np.full(2, np.nan, "<f4").tobytes(), "not a number"),
    ],
)
def test_a_reply_that_cannot_be_logits_names_its_sample(data, complaint):
    with pytest.raises(InvalidRunError, match=f"sample 3 .*{complaint}"):
        metric().score([LoggedReply(index=3, data=data)])


def test_a_reply_to_an_unknown_sample_is_refused():
    with pytest.raises(InvalidRunError, match="sample 16 was answered, but there are 16"):
        metric().score([LoggedReply(index=16, data=bytes(8))])


def test_the_targets_are_those_of_the_submission_checker():
    required, stricter = metric().targets
    assert (required.name, required.lower, required.required) == ("99", 89.96526, True)
    assert (stricter.name, stricter.lower, stricter.required) == ("99.9", 90.783126, False)


class TestDifference:
    """The logit that moved most, as a share of the reference's range, which is 20 here."""

    accuracy_run = reply([0.0, 10.0, -10.0], [5.0, -5.0, 0.0]).data

    def difference(self, data):
        return metric().difference(data, self.accuracy_run)

    def test_the_same_does_not_differ(self):
        assert self.difference(self.accuracy_run) == 0

    def test_the_logit_that_moved_most_decides(self):
        found = self.difference(reply([0.3, 9.8, -10.1], [5.0, -4.5, 4.0]).data)
        assert found == pytest.approx(4 / 20)
        assert self.difference(reply([0.002, 10.0, -10.0], [5.0, -5.0, 0.0]).data) == pytest.approx(0.0001)

    def test_small_integers_are_compared_without_overflow(self):
        found = metric(dtype="int8").difference(
            *(np.array(each, "i1").tobytes() for each in ([-100, 100], [100, -100]))
        )
        assert found == 1

    def test_zeros_are_half_a_range_off(self):
        assert self.difference(bytes(24)) == 0.5

    def test_a_reply_of_another_form_has_nothing_of_it(self):
        assert self.difference(self.accuracy_run + bytes(8)) == 1
        assert self.difference(b"") == 1
        assert metric().difference(b"", b"") == 1

    def test_not_a_number_stays_none(self):
        assert np.isnan(self.difference(reply([np.nan, 10.0, -10.0], [5.0, -5.0, 0.0]).data))

    def test_any_logit_is_off_from_logits_that_are_all_alike(self):
        assert metric().difference(reply([1.0], [2.0]).data, reply([1.0], [1.0]).data) == 1
        assert metric().difference(reply([1.0], [1.0]).data, reply([1.0], [1.0]).data) == 0
