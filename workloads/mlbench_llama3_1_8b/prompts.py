"""The prompt around an article, as text and as tokens.

Source: MLPerf Inference v5.1, language/llama3.1-8b/download_cnndm.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

INSTRUCTION = (
    "Summarize the following news article in 128 tokens. Please output the summary only, without any other text."
    "\n\nArticle:\n{input}\n\nSummary:"
)
LONGEST_PROMPT = 8000
"""Tokens that the official preparation allows; the model has positions for 131,072."""


def prompt_text(article: str) -> str:
    """Return the prompt as text."""
    return INSTRUCTION.replace("{input}", article)


def prompt_tokens(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return the tokens of a prompt; the tokenizer puts the token that begins a text in front."""
    ids: list[int] = tokenizer.encode(text).ids
    return ids
