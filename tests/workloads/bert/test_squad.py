"""Reading, tokenising and cutting, against what the MLPerf Inference v4.1 reference made (tests/data/bert)."""

import json
from pathlib import Path

import pytest
from mlbench_bert.squad import Paragraph, Question, Vocabulary, Windows, passage_words, read_features, read_questions

from mlbench import DataError

GOLDEN = Path(__file__).parents[2] / "data" / "bert" / "features"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


@pytest.fixture(scope="module")
def questions():
    return read_questions(GOLDEN / "dev.json")


@pytest.fixture(scope="module")
def vocabulary():
    return Vocabulary.read(GOLDEN / "vocab.txt", size=298)


@pytest.fixture(scope="module")
def features(questions, vocabulary):
    return read_features(questions, vocabulary, Windows())


def test_the_official_windows_are_the_defaults():
    assert (EXPECTED["max_seq_length"], EXPECTED["max_query_length"], EXPECTED["doc_stride"]) == (384, 64, 128)
    assert Windows() == Windows(tokens=384, question_tokens=64, stride=128)


def test_passages_split_into_the_words_of_the_reference(questions):
    assert [list(question.paragraph.words) for question in questions[::2]] == EXPECTED["doc_tokens"]


def test_only_ascii_blanks_and_the_narrow_no_break_space_split_words():
    assert passage_words(" a\u00a0b\u202fc\u2009d\te\r\nf ") == ["a\u00a0b", "c\u2009d", "e", "f"]


def test_there_are_as_many_features_as_the_reference_makes(features):
    assert len(features) == EXPECTED["num_features"]


@pytest.mark.parametrize("index", range(EXPECTED["num_features"]))
def test_a_feature_equals_the_reference_s(features, vocabulary, index):
    feature, wanted = features[index], EXPECTED["features"][index]
    ids, segments = (row.tolist() for row in feature.tokens)
    before, after = wanted["first_segment_1"], wanted["num_segment_1"]
    assert feature.question == wanted["example_index"]
    assert ids == wanted["input_ids"]
    assert [vocabulary.tokens[token] for token in ids] == wanted["tokens"]
    assert segments == [0] * before + [1] * after
    assert feature.first_passage_token == wanted["first_doc_token"]
    assert feature.words.tolist() == wanted["token_to_orig_map"]
    assert "".join("01"[int(best)] for best in feature.is_max_context) == wanted["token_is_max_context"]


def test_windows_overlap_by_the_room_less_the_stride_and_stop_at_the_end():
    assert Windows(stride=3).spans(10, room=5) == [(0, 5), (3, 5), (6, 4)]
    assert Windows(stride=3).spans(5, room=5) == [(0, 5)]
    assert Windows(stride=3).spans(0, room=5) == []


def test_the_longer_window_is_best_for_a_token_with_one_token_less_of_context(vocabulary):
    # Windows (128, 300) and (256, 184) of 440 words. Word 342: 85 words to the end of the first, 86 to the start of the
    # second, and 85 + 3.00 > 86 + 1.84. Word 343: 84 + 3.00 < 87 + 1.84.
    paragraph = Paragraph(passage="", words=["the"] * 440)
    question = Question(id="1", text="who", paragraph=paragraph, answers=())
    _, first, second = read_features([question], vocabulary, Windows(tokens=304))
    assert (len(first.words), len(second.words)) == (300, 184)
    assert first.is_max_context[[342 - 128, 343 - 128]].tolist() == [True, False]
    assert second.is_max_context[[342 - 256, 343 - 256]].tolist() == [False, True]


class TestBadFiles:
    def test_a_missing_file_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"cannot be read: .*dev\.json: No such file"):
            read_questions(tmp_path / "dev.json")

    @pytest.mark.parametrize(
        ("content", "complaint"),
        [
            ('{"data": [', "is not JSON"),
            ("{}", "not of the v1.1 format: .*KeyError: 'data'"),
            ("[]", "not of the v1.1 format"),
            ('{"data": [{"paragraphs": [{"context": 3, "qas": []}]}]}', "not of the v1.1 format"),
            ('{"data": [{"paragraphs": [{"context": "a", "qas": [{"id": "1", "question": "b"}]}]}]}', "'answers'"),
            ('{"data": []}', "contains no question"),
        ],
    )
    def test_a_file_of_another_form_is_refused(self, tmp_path, content, complaint):
        path = tmp_path / "dev.json"
        path.write_text(content)
        with pytest.raises(DataError, match=complaint):
            read_questions(path)

    def test_a_question_that_is_listed_twice_is_refused(self, tmp_path):
        answer = {"text": "spring", "answer_start": 18}
        question = {"id": "q", "question": "When?", "answers": [answer]}
        paragraph = {"context": "The river rose in spring.", "qas": [question, question]}
        (tmp_path / "dev.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
        with pytest.raises(DataError, match="lists 1 questions a second time"):
            read_questions(tmp_path / "dev.json")

    def test_bytes_that_are_no_text_are_refused(self, tmp_path):
        path = tmp_path / "dev.json"
        path.write_bytes(b"\xff\xfe{")
        with pytest.raises(DataError, match="is not text"):
            read_questions(path)

    def test_a_vocabulary_that_is_too_short_is_refused(self):
        with pytest.raises(DataError, match="has 298 tokens, the model 30522"):
            Vocabulary.read(GOLDEN / "vocab.txt", size=30522)

    def test_a_vocabulary_without_special_tokens_is_refused(self, tmp_path):
        path = tmp_path / "vocab.txt"
        path.write_text("[PAD]\n[CLS]\nword\n")
        with pytest.raises(DataError, match=r"lacks \[SEP\], \[UNK\]"):
            Vocabulary.read(path, size=3)

    def test_a_missing_vocabulary_is_named(self, tmp_path):
        with pytest.raises(DataError, match=r"cannot be read: .*vocab\.txt"):
            Vocabulary.read(tmp_path / "vocab.txt", size=3)
