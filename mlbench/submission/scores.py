"""``accuracy.txt``: the scores of an accuracy test, as the official scripts print them.

Each line is matched with each pattern from its start, as the submission checker does. Of a score that was printed more
than once the first that misses its target counts: a good score does not cancel a bad one. Where all meet it the last
counts, of those before every score and the hash of the accuracy log were seen. There the checker stops reading; a bad
score further down counts here too.
Source: submission checkers v4.1 to v6.0, ``ACC_PATTERN`` and ``check_accuracy_dir``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contracts.metric import Target
from mlbench.errors import DataError
from mlbench.system.documents import read_text, refusal

_NUMBER = r"([0-9.]+)"


_QUOTED = rf"\s+'?{_NUMBER}"
_PLAIN = rf"\s{_NUMBER}"


def _quote_name(name: str) -> str:
    """Return the pattern of an entry of a printed dictionary, whose number may be quoted."""
    return rf".*'{name}':{_QUOTED}"


_PATTERNS = {
    "acc": rf"""(?:\{{"accuracy|accuracy)[": ]*+=?\s*+{_NUMBER}""",
    "mAP": rf".*(?:mAP=|'Total':)\s*{_NUMBER}",
    "F1": rf"""\{{["']exact_match["']:\s*[0-9.]+,\s*["']f1["']:\s*{_NUMBER}\}}""",
    "AUC": rf"AUC={_NUMBER}",
    "DICE": rf"Accuracy:\s*mean\s*=\s*{_NUMBER}",
    "ACCURACY": rf"Word Error Rate:.*, accuracy={_NUMBER}%",
    "E2E_ACCURACY": rf"Accuracy:\s*{_NUMBER}",
    "F1_HIERARCHICAL": rf"""(?=.*\}})\{{.*"f1":\s*+{_NUMBER}""",
    "DLRM_NE": rf".*metric/lifetime_ne/rating:\s*{_NUMBER}",
    "DLRM_ACC": rf".*metric/lifetime_accuracy/rating:\s*{_NUMBER}",
    "DLRM_AUC": rf".*metric/lifetime_gauc/rating:\s*{_NUMBER}",
    "ROUGE1": _quote_name("rouge1"),
    "ROUGE2": _quote_name("rouge2"),
    "ROUGEL": _quote_name("rougeL"),
    "ROUGELSUM": _quote_name("rougeLsum"),
    "GEN_LEN": _quote_name("gen_len"),
    "TOKENS_PER_SAMPLE": _quote_name("tokens_per_sample"),
    "gsm8k_accuracy": _quote_name("gsm8k"),
    "mbxp_accuracy": _quote_name("mbxp"),
    "exact_match": _quote_name("exact_match"),
    "vbench_score": _quote_name("vbench_score"),
    "CLIP_SCORE": _quote_name("CLIP_SCORE"),
    "FID_SCORE": _quote_name("FID_SCORE"),
}
"""By the rules' name of a score. Source: submission checker v6.0, ``ACC_PATTERN``; the ``Accuracy`` of v6.1.

No two parts of a pattern match the same blanks: a line of a million would take hours.
"""

_PLAIN_PATTERNS = {
    **{name: pattern.replace(_QUOTED, _PLAIN) for name, pattern in _PATTERNS.items()},
    "acc": rf"accuracy={_NUMBER}",
    "mAP": rf"mAP={_NUMBER}",
}
"""The fewer spellings of v4.1: no quoted numbers."""


_HASH = re.compile(r"hash=(\w+)")
_NUMPY_2 = re.compile(r"np\.float\d+\([^()\n]{1,40}\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintedScores:
    """The content of an ``accuracy.txt``."""

    scores: Mapping[str, float]
    """By the names that the rules use."""
    line: str
    """The line the first of them is on."""
    log_hash: str = ""
    """Hash of the whole accuracy log; empty if it is not on a line of its own."""


def read_scores(file: Path, targets: Sequence[Target], *, are_plain: bool = True) -> PrintedScores:
    """Return the scores of these targets that a file holds, and the hash of the accuracy log.

    Args:
        file: an ``accuracy.txt``.
        targets: of one accuracy variant; a score is good where it meets its target.
        are_plain: whether scores count in v4.1's spellings alone; see `CheckerScope.plain_scores`.

    Raises:
        DataError: the file is missing, or holds none of the scores.
    """
    good: dict[str, tuple[float, str]] = {}
    bad: dict[str, tuple[float, str]] = {}
    log_hash = ""
    lines = _lines(file)
    patterns = {target.score: _pattern(target.score, are_plain) for target in targets}
    for line in lines:
        for target in targets:
            if found := re.match(patterns[target.score], line):
                score = _number(found[1])
                if not target.is_met_by(score):
                    bad.setdefault(target.score, (score, line))
                elif not (log_hash and len(good) == len(targets)):
                    good[target.score] = score, line
        if found := _HASH.fullmatch(line):
            log_hash = log_hash or found[1]
    held = {target.score: entry for target in targets if (entry := bad.get(target.score) or good.get(target.score))}
    if len(held) < len(targets) and (written := _NUMPY_2.search("\n".join(lines))):
        raise DataError(
            f"contains scores in NumPy 2's form, which the official checker cannot read: {written[0]} for a number.",
            hint="Print them with float(...), or write the numbers alone.",
        )
    if not held:
        raise refusal(file, f"contains no {' or '.join(target.score for target in targets)}.")
    return PrintedScores(
        scores={name: score for name, (score, _) in held.items()},
        line=next(iter(held.values()))[1].strip(),
        log_hash=log_hash,
    )


def are_met_officially(file: Path, targets: Sequence[Target], *, are_plain: bool = True) -> bool:
    """Return whether the official checker finds all scores good, and the hash, in the part of a file that it reads.

    Raises:
        DataError: the file is missing, or a score is not a number.
    """
    missing, has_hash = {target.score for target in targets}, False
    patterns = {target.score: _pattern(target.score, are_plain) for target in targets}
    for line in _lines(file):
        for target in targets:
            if found := re.match(patterns[target.score], line):
                if not target.is_met_by(_number(found[1])):
                    return False
                missing.discard(target.score)
        has_hash = has_hash or bool(_HASH.fullmatch(line))
        if has_hash and not missing:
            return True
    return False


def read_printed(file: Path, score: str, *, are_plain: bool = True) -> float | None:
    """Return the last value that a file prints of a score; None: it prints none.

    Raises:
        DataError: the file is missing, or a value is not a number.
    """
    found = [match[1] for line in _lines(file) if (match := re.match(_pattern(score, are_plain), line))]
    return _number(found[-1]) if found else None


def read_log_hash(file: Path) -> str:
    """Return the hash of the accuracy log that a file holds on a line of its own; empty: none.

    Raises:
        DataError: the file is missing.
    """
    return next((found[1] for line in _lines(file) if (found := _HASH.fullmatch(line))), "")


def _pattern(score: str, are_plain: bool) -> str:
    """Return the pattern of a score; of an unknown one that of an entry of a printed dictionary."""
    return (_PLAIN_PATTERNS if are_plain else _PATTERNS).get(score) or _quote_name(re.escape(score))


def _lines(file: Path) -> list[str]:
    return read_text(file, what="scores", replaces_errors=True).splitlines()


def _number(text: str) -> float:
    try:
        found = float(text.rstrip("."))
    except ValueError:
        raise DataError(f"{text[:40]!r} is not a number.") from None
    if not math.isfinite(found):
        raise DataError(f"{text[:40]!r} is not a score.")
    return found
