"""SQuAD v1.1 questions, and how BERT reads them: WordPiece tokens in overlapping windows.

Source of every rule here: MLPerf Inference v4.1, language/bert (tokenisation and feature creation of the reference).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from mlbench import DataError
from mlbench.toolkit import DATA_BYTES, foreign, read_json, read_text

# The passage reader splits here and nowhere else: U+202F is a space to it although U+00A0 is not.
_BETWEEN_WORDS = re.compile("[ \t\r\n\u202f]+")

_normalizer = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=True, lowercase=True)
_pre_tokenizer = BertPreTokenizer()


def basic_tokens(text: str) -> list[str]:
    """Return the output of BERT's uncased basic tokenizer for a text: lower-case words and punctuation marks."""
    return [word for word, _ in _pre_tokenizer.pre_tokenize_str(_normalizer.normalize_str(text))]


def passage_words(passage: str) -> list[str]:
    """Split a passage as the reference's reader does."""
    return [word for word in _BETWEEN_WORDS.split(passage) if word]


class Answer(NamedTuple):
    """A right answer, and where in the passage it starts, in characters."""

    text: str
    start: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A passage; one object for all its questions."""

    passage: str
    words: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question of a SQuAD file."""

    id: str
    text: str
    paragraph: Paragraph
    answers: tuple[Answer, ...]


def read_questions(path: Path) -> list[Question]:
    """Read a SQuAD v1.1 file, in order.

    Raises:
        DataError: the file is missing, is not JSON, or is not of this format.
    """
    content = read_json(path, what="SQuAD file", limit_bytes=DATA_BYTES)
    hint = "Expected data > paragraphs > context and qas > id, question, answers."
    with foreign("SQuAD file is not of the v1.1 format:", str(path), hint=hint, path=path):
        questions = [question for article in content["data"] for question in _article_questions(article)]
    if len(questions) > len(names := {question.id for question in questions}):
        twice = len(questions) - len(names)
        raise DataError(f"SQuAD file lists {twice} questions a second time: {path}.", hint="Download it again.")
    if not questions:
        raise DataError(f"SQuAD file contains no question: {path}.")
    return questions


def _article_questions(article: Mapping[str, Any]) -> Iterator[Question]:
    for entry in article["paragraphs"]:
        passage = _text(entry, "context")
        paragraph = Paragraph(passage=passage, words=passage_words(passage))
        for qa in entry["qas"]:
            answers = tuple(Answer(_text(answer, "text"), _place(answer)) for answer in qa["answers"])
            yield Question(id=_text(qa, "id"), text=_text(qa, "question"), paragraph=paragraph, answers=answers)


def _text(entry: Mapping[str, Any], key: str) -> str:
    if not isinstance(text := entry[key], str):
        raise ValueError(f"{key} is not text: {str(text)[:40]}")
    return text


def _place(answer: Mapping[str, Any]) -> int:
    if type(place := answer["answer_start"]) is not int:
        raise ValueError(f"answer_start is not a whole number: {str(place)[:40]}")
    return place


class Vocabulary:
    """A WordPiece vocabulary of the uncased BERT: one token per line, the line number from 0 is the id."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        ids = {token: number for number, token in enumerate(tokens)}
        self.cls, self.sep = ids["[CLS]"], ids["[SEP]"]
        # 100 characters is Hugging Face's limit, which the reference uses; Google's own tokenizer has 200.
        self._tokenizer = Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
        self._tokenizer.normalizer = _normalizer
        self._tokenizer.pre_tokenizer = _pre_tokenizer

    @classmethod
    def read(cls, path: Path, *, size: int) -> Vocabulary:
        """Read a vocabulary file.

        Raises:
            DataError: it is missing, lacks one of BERT's special tokens, or has another number of tokens than ``size``.
        """
        tokens = read_text(path, what="vocabulary").removesuffix("\n").split("\n")  # splitlines() knows more line ends
        if len(tokens) != size:
            raise DataError(
                f"vocabulary has {len(tokens)} tokens, the model {size}: {path}.",
                hint="Give the model's own vocab.txt.",
            )
        if missing := {"[PAD]", "[UNK]", "[CLS]", "[SEP]"} - set(tokens):
            raise DataError(f"vocabulary lacks {', '.join(sorted(missing))}: {path}.")
        return cls(tokens)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text on its own, without special tokens; a text may give none."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]


class TokenPair(NamedTuple):
    """The graph's inputs for one sample, without padding: both (tokens,) int64."""

    input_ids: np.ndarray
    segment_ids: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """A question with one window of its passage: [CLS] question [SEP] window [SEP]."""

    question: int
    """Position of the question in the file."""
    tokens: TokenPair
    first_passage_token: int
    """Position of the window's first token; the window ends before the last token."""
    words: np.ndarray
    """(window,) the passage word each token of the window comes from."""
    is_max_context: np.ndarray
    """(window,) whether this is the window where the token has most context on its shorter side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Windows of passages, in tokens. The defaults are the official ones."""

    tokens: int = 384
    question_tokens: int = 64
    stride: int = 128

    def spans(self, passage_tokens: int, room: int) -> list[tuple[int, int]]:
        """Return (start, length) of each window over a passage, ``room`` tokens at most in a window."""
        spans, start = [], 0
        while start < passage_tokens:
            length = min(passage_tokens - start, room)
            spans.append((start, length))
            if start + length == passage_tokens:
                break
            start += min(length, self.stride)
        return spans


def read_features(questions: Sequence[Question], vocabulary: Vocabulary, windows: Windows) -> list[Feature]:
    """Return the features of all questions in their official order: by question, then by window."""
    encoded_questions = vocabulary.encode([question.text for question in questions])
    passages: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    features: list[Feature] = []
    for number, (question, ids) in enumerate(zip(questions, encoded_questions, strict=True)):
        key = id(question.paragraph)
        if key not in passages:
            passages[key] = _encode_passage(question.paragraph.words, vocabulary)
        head = [vocabulary.cls, *ids[: windows.question_tokens], vocabulary.sep]
        features += _question_features(number, head, passages[key], vocabulary.sep, windows)
    return features


def _encode_passage(words: Sequence[str], vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Return the passage's token ids and the word each comes from, both (tokens,) int64."""
    pieces = vocabulary.encode(words)
    ids = np.array([token for piece in pieces for token in piece], dtype=np.int64)
    return ids, np.repeat(np.arange(len(words)), [len(piece) for piece in pieces])


def _question_features(
    number: int, head: list[int], passage: tuple[np.ndarray, np.ndarray], sep: int, windows: Windows
) -> Iterator[Feature]:
    ids, words = passage
    spans = windows.spans(len(ids), room=windows.tokens - len(head) - 1)
    best = _max_context_window(spans, len(ids))
    for window, (start, length) in enumerate(spans):
        here = slice(start, start + length)
        segment_ids = np.ones(len(head) + length + 1, dtype=np.int64)
        segment_ids[: len(head)] = 0
        yield Feature(
            question=number,
            tokens=TokenPair(np.concatenate([head, ids[here], [sep]]).astype(np.int64), segment_ids),
            first_passage_token=len(head),
            words=words[here],
            is_max_context=best[here] == window,
        )


def _max_context_window(spans: Sequence[tuple[int, int]], passage_tokens: int) -> np.ndarray:
    """Return (passage_tokens,): the window where a token has most context.

    That is min(left, right context) + 0.01 * window length; the first window wins ties.
    """
    positions = np.arange(passage_tokens)
    scores = np.full((len(spans), passage_tokens), -1.0)
    for row, (start, length) in zip(scores, spans, strict=True):
        here = slice(start, start + length)
        left = positions[here] - start
        row[here] = np.minimum(left, length - 1 - left) + 0.01 * length
    return scores.argmax(axis=0) if spans else positions
