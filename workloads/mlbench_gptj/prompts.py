"""The prompt around an article, as text and as tokens.

Source: MLPerf Inference v4.1, language/gpt-j/dataset.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTRUCTION = "Summarize the following news article:"
LONGEST_PROMPT = 1919
"""Tokens: 2,048 positions less 128 new tokens and one. A longer prompt loses its end, ``### Response:`` with it."""


def prompt_text(instruction: str, article: str) -> str:
    """Return the prompt as text."""
    return (
        "Below is an instruction that describes a task, paired with an input that provides further context. "
        "Write a response that appropriately completes the request.\n\n"
        f"### Instruction:\n{instruction}\n\n### Input:\n{article}\n\n### Response:"
    )


def prompt_tokens(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of a prompt, at most 1,919."""
    ids: list[int] = tokenizer.encode(text).ids
    return ids[:LONGEST_PROMPT]
