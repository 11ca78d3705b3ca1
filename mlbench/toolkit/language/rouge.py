"""ROUGE as the official scripts of the language workloads compute it.

Source: MLPerf Inference v4.1, language/gpt-j/evaluation.py, language/llama2-70b/evaluate-accuracy.py and
language/mixtral-8x7b/evaluate-accuracy.py: rouge-score 0.1.2 with its stemmer, over sentences that NLTK's Punkt found.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence

from mlbench.errors import UsageError

logger = logging.getLogger(__name__)

Sentences = Callable[[str], Sequence[str]]
"""Splits a text into its sentences."""

_ROUGE_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
"""As rouge-score calls them; the last needs sentences, the others do not."""

ROUGE_SCORES = ("ROUGE1", "ROUGE2", "ROUGEL", "rougeLsum")
"""By the submission checker's names; it does not know the last."""

_PUNKT_FILES = "abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt"
NO_SENTENCES = "no sentence data"
"""Computed without a splitter."""

_AFTER_SENTENCE = re.compile(r"(?<=[.?!\"')\]}])\s+")


def punkt_sentences() -> Sentences | None:
    """Return NLTK's splitter for English; None, with a warning in the log, where its data is not installed."""
    from nltk import sent_tokenize

    try:
        sent_tokenize("Is it there?")
    except LookupError:
        logger.warning("no rougeLsum: NLTK's sentence data is not installed (python -m nltk.downloader punkt_tab)")
        return None
    return sent_tokenize  # type: ignore[no-any-return]


def unsplit(text: str) -> Sequence[str]:
    """Stand for NLTK's splitter where its data is missing; `text_scores` knows it."""
    return [text]


def sentences_used() -> str:
    """Return the default splitter of `text_scores` here: NLTK's version and a hash of its data, or none."""
    import nltk

    if punkt_sentences() is None:
        return NO_SENTENCES
    place, digest = nltk.data.find("tokenizers/punkt_tab/english/"), hashlib.sha256()
    for name in _PUNKT_FILES:
        with place.join(name).open() as file:
            digest.update(file.read())
    return f"NLTK {nltk.__version__}, punkt_tab {digest.hexdigest()[:16]}"


def check_sentences(workload: str) -> None:
    """Raise `UsageError` where NLTK's sentence data is missing, for a workload with a target that needs it."""
    if punkt_sentences() is None:
        raise UsageError(
            f"the scores of {workload} need NLTK's sentence data, which is not installed.",
            hint="Install it: python -m nltk.downloader punkt_tab",
        )


def sentence_lines(text: str, sentences: Sentences | None) -> str:
    """Return a text, stripped, with a line for each sentence.

    Without a splitter, the white space after every mark that may end a sentence becomes one line break: this text has
    at most as many characters as the one with Punkt's sentences, and almost always exactly as many.
    """
    if sentences is None:
        return _AFTER_SENTENCE.sub("\n", text.strip())
    return "\n".join(sentences(text.strip()))


def text_scores(
    texts: Sequence[str], references: Sequence[str], sentences: Sentences | None = None
) -> Mapping[str, float]:
    """Return ROUGE in percent and ``GEN_LEN``, the characters of all texts with a line for each sentence.

    Args:
        texts: what was generated; at least one.
        references: what each is compared with.
        sentences: splits a text into sentences; None for NLTK's splitter. Where its data is missing, so is
            ``rougeLsum``, as with `unsplit`.
    """
    sentences = None if sentences is unsplit else sentences or punkt_sentences()
    predictions = [sentence_lines(text, sentences) for text in texts]
    wanted = [sentence_lines(reference, sentences) for reference in references]
    found = rouge(predictions, wanted, has_sentences=sentences is not None)
    scores = {name: found[kind] for name, kind in zip(ROUGE_SCORES, _ROUGE_TYPES, strict=True) if kind in found}
    return {**scores, "GEN_LEN": sum(map(len, predictions))}


def rouge(predictions: Sequence[str], references: Sequence[str], *, has_sentences: bool) -> Mapping[str, float]:
    """Return the mean F-measures in percent, rounded to four digits as officially.

    Args:
        predictions: texts with a line for each sentence.
        references: the same, in the same order; at least one.
        has_sentences: whether lines are sentences; without them ``rougeLsum`` is missing.
    """
    import numpy as np
    from rouge_score.rouge_scorer import RougeScorer

    names = _ROUGE_TYPES if has_sentences else _ROUGE_TYPES[:-1]
    scorer = RougeScorer(names, use_stemmer=True)
    scores = [scorer.score(wanted, found) for found, wanted in zip(predictions, references, strict=True)]
    # NumPy's mean and its rounding, as in the official scripts: another order of summation may turn the last digit
    return {name: float(np.round(np.mean([each[name].fmeasure for each in scores]) * 100, 4)) for name in names}
