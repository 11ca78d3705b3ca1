"""Rules for generating an answer.

Source: MLPerf Inference v4.1, language/llama2-70b/SUT.py.
"""

from __future__ import annotations

from mlbench import Decoding
from mlbench.toolkit.language import TokenProgram

END_TOKEN = 2
MAX_NEW_TOKENS = 1024


def conversing(*, positions: int, max_new_tokens: int = MAX_NEW_TOKENS) -> TokenProgram:
    """Return the program: the likeliest token each time, until the end token or 1,024 new tokens.

    Args:
        positions: tokens of prompt and answer that the model has positions for.
        max_new_tokens: another limit for a model with fewer positions.
    """
    return TokenProgram(Decoding(end_tokens=(END_TOKEN,), max_new_tokens=max_new_tokens, longest=positions))
