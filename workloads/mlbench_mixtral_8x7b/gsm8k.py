"""GSM8K: extracts the number of an answer, and compares it with the right one.

Source: MLPerf Inference v4.1, language/mixtral-8x7b/evaluate-accuracy.py.
"""

from __future__ import annotations

import re

_NEXT_QUESTION = "\nQ:"
_CONCLUSION = "The answer is"
_NUMBER = re.compile(r"-?[\d,]*\.?\d+")


def numbers(answer: str) -> list[str]:
    """Return the numbers in an answer, as they are written."""
    return _NUMBER.findall(_own(answer))


def conclusion(answer: str) -> str:
    """Return the final number of an answer, without commas; empty if there is none.

    The first number after the last ``The answer is``; without the phrase, or a number after it, the last of all.
    """
    _, phrase, after = _own(answer).rpartition(_CONCLUSION)
    if phrase and (concluding := _NUMBER.search(after)):
        return concluding[0].replace(",", "")
    return found[-1].replace(",", "") if (found := numbers(answer)) else ""


def _own(answer: str) -> str:
    """Return an answer up to the point where it asks another question."""
    return answer.partition(_NEXT_QUESTION)[0]


def is_right(answer: str, right: str) -> bool:
    """Return whether the final number of an answer is exactly right."""
    try:
        return float(conclusion(answer)) == float(right)
    except ValueError:
        return False
