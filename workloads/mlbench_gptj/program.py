"""Rules for generating a summary.

Source: MLPerf Inference v4.1, language/gpt-j/backend.py.
"""

from __future__ import annotations

from mlbench import Decoding
from mlbench.toolkit.language import TokenProgram


def summarising(*, end_token: int, positions: int) -> TokenProgram:
    """Return the program: 4 beams, 30 to 128 new tokens, done when 4 summaries have ended.

    Args:
        end_token: ends a summary.
        positions: tokens of prompt and summary that the model has positions for.
    """
    return TokenProgram(
        Decoding(end_tokens=(end_token,), max_new_tokens=128, min_new_tokens=30, beams=4, longest=positions)
    )
