"""Rules for generating a summary.

Source: MLPerf Inference v5.1, language/llama3.1-8b/SUT_VLLM.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlbench import Decoding
from mlbench.toolkit.language import TokenProgram

MAX_NEW_TOKENS = 128


def summarising(*, end_tokens: Sequence[int], positions: int) -> TokenProgram:
    """Return the program: the likeliest token each time, until an end token or 128 new tokens.

    Args:
        end_tokens: each of them ends a summary: those of a text, of a message and of a turn. The last is what an answer
            is taken to end with where a server does not say.
        positions: tokens of prompt and summary that the model has positions for.
    """
    ends = tuple(reversed(end_tokens))
    return TokenProgram(Decoding(end_tokens=ends, max_new_tokens=MAX_NEW_TOKENS, longest=positions))
