"""A conversation's prompt, as text and as tokens.

Source: MLPerf Inference v4.1, language/llama2-70b/processorca.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LONGEST_PROMPT = 1024
"""Tokens."""

LONE_BLANK = 29871
"""Ends each prompt: Llama began every answer with this token, so it could have been sent before any work was done."""


def prompt_text(system_prompt: str, question: str) -> str:
    """Return the prompt as text; an empty system prompt leaves its part out."""
    system = f"<<SYS>>\n{system_prompt}\n<</SYS>>\n\n" if system_prompt else ""
    return f"<s>[INST] {system}{question} [/INST]"


def prompt_tokens(text: str, tokenizer: Tokenizer, *, lone_blank: int = LONE_BLANK) -> list[int]:
    """Return the tokens of a prompt: the text says BOS, the tokenizer adds another, and a lone blank ends it."""
    ids: list[int] = tokenizer.encode(text).ids
    return [*ids, lone_blank]
