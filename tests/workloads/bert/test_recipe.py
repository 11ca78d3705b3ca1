import re

import pytest
from mlbench_bert.mini_profile import MiniProfile
from mlbench_bert.squad import Vocabulary
from mlbench_recipes.bert import corpus, recipe


def values(articles):
    """The two-word answers of a corpus."""
    qas = [qa for paragraph in articles["data"][0]["paragraphs"] for qa in paragraph["qas"]]
    return {qa["answers"][0]["text"] for qa in qas if re.fullmatch(r"\D+ \D+", qa["answers"][0]["text"])}


def articles(*, held_out, seed=1, paragraphs=300):
    sizes = corpus.validation_sizes(seed, paragraphs=paragraphs)
    return corpus.Corpus(seed, held_out=held_out).articles(sizes, title="t", questions=4)


def test_an_answer_stands_in_the_passage_where_it_says():
    for paragraph in articles(held_out=True)["data"][0]["paragraphs"]:
        for qa in paragraph["qas"]:
            (answer,) = qa["answers"]
            assert paragraph["context"][answer["answer_start"] :].startswith(answer["text"])


def test_names_and_goods_of_the_held_out_text_are_never_trained_on():
    held_out, trained = values(articles(held_out=True)), values(articles(held_out=False))
    assert len(held_out) > 300
    assert len(trained) > 300
    assert held_out.isdisjoint(trained)


def test_the_vocabulary_has_1700_different_tokens_and_reads_the_corpus_without_unknown_words():
    tokens = corpus.vocabulary()
    assert len(tokens) == len(set(tokens)) == 1700
    words = {
        word for paragraph in articles(held_out=True)["data"][0]["paragraphs"] for word in paragraph["context"].split()
    }
    unknown = tokens.index("[UNK]")
    assert not [word for word, ids in zip(words, Vocabulary(tokens).encode(list(words)), strict=True) if unknown in ids]


def test_the_shipped_text_and_vocabulary_are_what_the_recipe_writes(tmp_path):
    recipe.write_data(tmp_path)
    for name in ("dev.json", "vocab.txt", "calibration.json", "calibration.txt"):
        assert (tmp_path / name).read_bytes() == (MiniProfile.shipped().files.path / name).read_bytes(), name


def test_one_question_in_five_needs_two_windows():
    features = MiniProfile.shipped().dataset().features
    windows = [feature.question for feature in features]
    several = {question for question in windows if windows.count(question) > 1}
    assert len(several) == 96


@pytest.mark.thorough("recipes")
def test_a_training_example_points_at_its_answer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(corpus.vocabulary()) + "\n")
    vocabulary = Vocabulary(corpus.vocabulary())
    examples = recipe.training_examples(tmp_path, vocabulary)
    assert len(examples) > 25_000
    assert not (tmp_path / "training.json").exists()
    first = next(example for example in examples if example.start)
    sentence = [vocabulary.tokens[token] for token in first.input_ids[first.sentence]]
    assert sentence[-1] == "."
    assert "." not in sentence[:-1]
    assert first.sentence.start <= first.start <= first.end < first.sentence.stop
