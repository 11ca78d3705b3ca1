"""Prompts that are text, answered by a server's own model: mlbench has neither its weights nor its tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlbench import Decoding, GenerationProgram, Prompt, ReplySpec
from mlbench_endpoint.loads.text_sample import TextSample


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPrompt(Prompt):
    """The prompt of a sample. It has as many ``tokens``, all 0, as its text has characters: the server counts."""

    sample: TextSample


class TextProgram(GenerationProgram):
    """Takes text and gives text, both as UTF-8."""

    api_kind = "text"
    """Kind of a server's answers: ``text``, or ``numbers``, of which the text is a summary."""

    def __init__(self, longest_answer: int) -> None:
        """Describe answers of up to a number of tokens, by the server's count."""
        self.reply = ReplySpec(dtype="uint8", shape=(None,), is_text=True)
        self.decoding = Decoding(end_tokens=(), max_new_tokens=longest_answer, longest=np.iinfo(np.int64).max)

    def prompt(self, sample: Any) -> TextPrompt:
        """Return a `TextSample` as a prompt."""
        # a view of one number: all prompts of a test are kept until they are answered
        return TextPrompt(tokens=np.broadcast_to(np.zeros(1, np.int64), max(1, len(sample.text))), sample=sample)

    def answer(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the bytes of an answer as an array."""
        return np.array(tokens, np.uint8)


class VectorProgram(TextProgram):
    """Takes text, and gives a summary of numbers."""

    api_kind = "numbers"
