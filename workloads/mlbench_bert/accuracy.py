"""Exact match and F1, as the official script computes them.

Source: MLPerf Inference v4.1, language/bert: accuracy-squad.py and evaluate-v1.1.py.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np

from mlbench import DifferenceLimits, InvalidRunError, LoggedReply, Metric, Target
from mlbench.toolkit import limits_by_precision
from mlbench_bert.squad import Feature, Question, Vocabulary, basic_tokens

CANDIDATES = 20
LONGEST_ANSWER = 30
"""In tokens."""

LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=0.01, mean=0.001),
    half=DifferenceLimits(one=0.15, mean=0.03),
    eight_bits=DifferenceLimits(one=0.25, mean=0.05),
)
"""Limits of the logits' difference from the accuracy run's; the README has the measurements."""

MISSING_LOGIT = -10000.0
"""Value that fills up a reply shorter than the window."""

NO_ANSWER = "empty"

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


class SquadF1(Metric):
    """Scores ``exact_match`` and ``F1`` in percent over all questions of the file, answered or not."""

    reply_limits = LIMITS

    def __init__(  # noqa: PLR0913 - what is compared with, and how replies are stored
        self,
        questions: Sequence[Question],
        features: Sequence[Feature],
        vocabulary: Vocabulary,
        *,
        tokens: int,
        targets: tuple[Target, ...],
        dtype: str = "float32",
        layout: Literal["interleaved", "transposed"] = "interleaved",
    ) -> None:
        """Store the references and limits.

        Args:
            questions: all questions of the file.
            features: the sample with index i is the i-th.
            vocabulary: turns ids back into text.
            tokens: the longest window; shorter replies are filled up to it.
            targets: limits of the scores.
            dtype: how a logit is stored.
            layout: start and end logit of one token after the other, or all starts and then all ends.
        """
        self.targets = targets
        self._questions = questions
        self._features = features
        self._vocabulary = vocabulary
        self._tokens = tokens
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._layout = layout

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return ``exact_match`` and ``F1``.

        Raises:
            InvalidRunError: a reply is empty, of another size, too long, not a number, or to an unknown sample.
        """
        return squad_scores(self._questions, self.answers(replies))

    def answers(self, replies: Sequence[LoggedReply]) -> Mapping[str, str]:
        """Return the answer to every question by its id; features without a reply are passed over, as officially."""
        last = {reply.index: reply for reply in replies}
        indices = sorted(last)
        answers = {question.id: NO_ANSWER for question in self._questions}
        if not indices:
            return answers
        logits = np.full((len(indices), self._tokens, 2), MISSING_LOGIT)
        for row, index in zip(logits, indices, strict=True):
            values = self._logits(last[index])
            row[: len(values)] = values
        features = [self._features[index] for index in indices]
        best: dict[int, float] = {}
        for feature, (start, end, score) in zip(features, best_spans(logits, features), strict=True):
            if score > best.get(feature.question, -np.inf):  # of equals the first window stays
                best[feature.question] = score
                question = self._questions[feature.question]
                answers[question.id] = self._text(question, feature, start, end)
        return answers

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return start and end logit of one token after the other."""
        return _decode(reply.data, self._dtype, self._layout).astype(np.float32).reshape(-1)

    def line(self, scores: Mapping[str, float]) -> str:
        """Return ``{"exact_match": 83.78429517502366, "f1": 90.53885196505269}``."""
        return json.dumps({"exact_match": scores["exact_match"], "f1": scores["F1"]})

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the largest difference of a logit, as a share of the reference's range, largest minus smallest.

        Another batch means other padding, other kernels and another order of summation. A reply of zeros is half a
        range off at least. The furthest logit decides because one wrong logit changes an answer, where an average over
        a window would hide it.
        """
        if len(reply) != len(reference) or not self._can_be_logits(len(reply)):
            return 1.0
        wanted = _decode(reference, self._dtype, self._layout)
        furthest, span = np.abs(_decode(reply, self._dtype, self._layout) - wanted).max(), wanted.max() - wanted.min()
        return float(furthest / span) if span else float(furthest > 0)

    def _logits(self, reply: LoggedReply) -> np.ndarray:
        """Return (tokens of the reply, 2) float64."""
        reply.check_index(len(self._features))
        if not self._can_be_logits(len(reply.data)):
            raise reply.size_error(f"pairs of {self._dtype.name} for 1 to {self._tokens} tokens")
        logits = _decode(reply.data, self._dtype, self._layout)
        if np.isnan(logits).any() or np.isposinf(logits).any():
            raise InvalidRunError(f"the reply to sample {reply.index} contains a logit that is not a number.")
        return logits

    def _can_be_logits(self, size: int) -> bool:
        """Return whether so many bytes are pairs of logits for some or all tokens of a window."""
        pair = 2 * self._dtype.itemsize
        return size % pair == 0 and 1 <= size // pair <= self._tokens

    def _text(self, question: Question, feature: Feature, start: int, end: int) -> str:
        """Return the answer from token ``start`` to ``end``, as the passage writes it."""
        tokens = [self._vocabulary.tokens[token] for token in feature.tokens.input_ids[start : end + 1]]
        predicted = " ".join(" ".join(tokens).replace(" ##", "").replace("##", "").split())
        first, last = (feature.words[place - feature.first_passage_token] for place in (start, end))
        return project(predicted, " ".join(question.paragraph.words[first : last + 1]))


def _decode(data: bytes, dtype: np.dtype, layout: str) -> np.ndarray:
    """Return (tokens, 2) float64: in float16 sums would tie where the logits do not, and int8 would overflow."""
    values = np.frombuffer(data, dtype).astype(np.float64)
    return values.reshape(-1, 2) if layout == "interleaved" else values.reshape(2, -1).T


def best_spans(logits: np.ndarray, features: Sequence[Feature]) -> Iterable[tuple[int, int, float]]:
    """Yield the best span of each window: first token, last token and score, which is -inf where no span is allowed.

    Candidates are the 20 largest start and end logits over all positions, padding too. Spans lie in the passage, have
    30 tokens at most, and start where the token has most context. Of equal scores the first start wins, then the first
    end, in order of rank.

    Args:
        logits: (windows, tokens, 2) float64.
        features: the windows.
    """
    order = np.argsort(-logits, axis=1, kind="stable")[:, :CANDIDATES]  # (windows, 20, 2)
    best_logits = np.take_along_axis(logits, order, axis=1)
    may_start, may_end = np.zeros((2, *logits.shape[:2]), dtype=bool)
    for start_row, end_row, feature in zip(may_start, may_end, features, strict=True):
        passage = slice(feature.first_passage_token, feature.first_passage_token + len(feature.words))
        start_row[passage] = feature.is_max_context
        end_row[passage] = True
    starts, ends = order[..., 0, None], order[:, None, :, 1]  # (windows, 20, 1), (windows, 1, 20)
    allowed = np.take_along_axis(may_start, order[..., 0], axis=1)[:, :, None]
    allowed = allowed & np.take_along_axis(may_end, order[..., 1], axis=1)[:, None, :]
    allowed &= (starts <= ends) & (ends - starts < LONGEST_ANSWER)
    scores = np.where(allowed, best_logits[..., 0, None] + best_logits[:, None, :, 1], -np.inf)
    flat = scores.reshape(len(scores), -1)  # start-major
    best = flat.argmax(axis=1)
    rows, columns = np.arange(len(flat)), scores.shape[2]
    best_starts, best_ends = order[rows, best // columns, 0], order[rows, best % columns, 1]
    yield from zip(best_starts.tolist(), best_ends.tolist(), flat[rows, best].tolist(), strict=True)


def project(predicted: str, original: str) -> str:
    """Return the part of the original words that a predicted text, in BERT's lower-case tokens, stands for.

    All of ``original`` where the two cannot be aligned character by character: the text is not found in the tokenised
    original, or tokenising changed the number of characters.
    """
    tokenised = " ".join(basic_tokens(original))
    start = tokenised.find(predicted)
    places = [place for place, character in enumerate(original) if character != " "]
    if start < 0 or not predicted or len(places) != len(tokenised) - tokenised.count(" "):
        return original
    before = start - tokenised.count(" ", 0, start)
    return original[places[before] : places[before + len(predicted) - predicted.count(" ") - 1] + 1]


def squad_scores(questions: Sequence[Question], answers: Mapping[str, str]) -> Mapping[str, float]:
    """Return ``exact_match`` and ``F1``, percent: best over a question's right answers, 0 without a prediction."""
    exact_match = f1 = 0.0
    for question in questions:
        if question.id in answers:
            pairs = [(normalise(answers[question.id]), normalise(answer.text)) for answer in question.answers]
            exact_match += any(predicted == right for predicted, right in pairs)
            f1 += max((token_f1(predicted, right) for predicted, right in pairs), default=0.0)
    return {"exact_match": 100.0 * exact_match / len(questions), "F1": 100.0 * f1 / len(questions)}


def normalise(text: str) -> str:
    """Return a text in lower case, without ASCII punctuation, without the words a, an, the, and with single spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(predicted: str, right: str) -> float:
    """Return the harmonic mean of precision and recall over the words of normalised texts; 0 when they share none."""
    predicted_words, right_words = predicted.split(), right.split()
    shared = (Counter(predicted_words) & Counter(right_words)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(predicted_words), shared / len(right_words)
    return 2 * precision * recall / (precision + recall)
