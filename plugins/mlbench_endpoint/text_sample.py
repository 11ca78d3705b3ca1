"""A prompt as text, before it has tokens. Importing it loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSample:
    """A prompt of the dataset."""

    text: str
    answer_tokens: int
    """Most tokens of the answer, by the server's count."""
    new_words: int = 0
    """Number of random words before the text, new at each sending, so that no server has cached the prompt."""
