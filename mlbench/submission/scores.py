"""``accuracy.txt``: the scores of an accuracy test, as the official scripts print them.

Each line is held against each pattern from its start, as the submission checker does; of a score that repeats the first
counts. Source: submission checker v4.1, ``ACC_PATTERN``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mlbench.errors import DataError

_NUMBER = r"([0-9.]+)"


def _quoted(name: str) -> str:
    """Return the pattern of an entry of a printed dictionary."""
    return rf".*'{name}':\s{_NUMBER}"


_PATTERNS = {
    "acc": rf"accuracy={_NUMBER}",
    "mAP": rf"mAP={_NUMBER}",
    "F1": rf"""\{{["']exact_match["']:\s*[0-9.]+,\s*["']f1["']:\s*{_NUMBER}\}}""",
    "AUC": rf"AUC={_NUMBER}",
    "DICE": rf"Accuracy:\s*mean\s*=\s*{_NUMBER}",
    "ROUGE1": _quoted("rouge1"),
    "ROUGE2": _quoted("rouge2"),
    "ROUGEL": _quoted("rougeL"),
    "GEN_LEN": _quoted("gen_len"),
    "TOKENS_PER_SAMPLE": _quoted("tokens_per_sample"),
    "gsm8k_accuracy": _quoted("gsm8k"),
    "mbxp_accuracy": _quoted("mbxp"),
    "CLIP_SCORE": _quoted("CLIP_SCORE"),
    "FID_SCORE": _quoted("FID_SCORE"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedScores:
    """What an ``accuracy.txt`` says."""

    scores: Mapping[str, float]
    """By the names that the rules use."""
    line: str
    """The line the first of them is on."""


def read_scores(file: Path, wanted: tuple[str, ...]) -> PrintedScores:
    """Return those of the wanted scores that a file holds.

    Raises:
        DataError: it is missing, or holds none of them.
    """
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}.") from None
    scores: dict[str, float] = {}
    first = ""
    for line in lines:
        for name in wanted:
            found = re.match(_PATTERNS[name], line)
            if found and name not in scores:
                scores[name] = _number(found[1])
                first = first or line.strip()
    if not scores:
        raise DataError(f"holds no {' or '.join(wanted)}.")
    return PrintedScores(scores=scores, line=first)


def _number(text: str) -> float:
    try:
        return float(text.rstrip("."))
    except ValueError:
        raise DataError(f"{text!r} is no number.") from None
