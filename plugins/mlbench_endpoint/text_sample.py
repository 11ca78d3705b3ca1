"""A prompt as text, before anything is known of tokens. Importing it loads nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSample:
    """A prompt of the dataset."""

    text: str
    answer_tokens: int
    """How many tokens the answer may have, by the server's count."""
    new_words: int = 0
    """How many words, drawn anew each time it is sent, go before the text: no server can have read that prompt."""
