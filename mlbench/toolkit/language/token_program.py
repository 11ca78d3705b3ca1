"""The program of the language workloads: prompts are token ids, and so are replies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlbench.contracts.generation import Decoding, GenerationProgram, Prompt
from mlbench.contracts.reply_spec import ReplySpec

if TYPE_CHECKING:
    import numpy as np


class TokenProgram(GenerationProgram):
    """A sample is a `Prompt`; the reply is its new tokens as int64, which the official accuracy scripts read unasked.

    LoadGen counts an answer of one token as an error. Such an answer is the end token alone, and gets it twice, the one
    case where the compliance test TEST06 lets an answer end so.
    """

    reply = ReplySpec(dtype="int64", shape=(None,))

    def __init__(self, decoding: Decoding) -> None:
        self.decoding = decoding

    def prompt(self, sample: Prompt) -> Prompt:
        """Return the sample."""
        return sample

    def answer(self, tokens: Sequence[int]) -> np.ndarray:
        """Return (n,) int64, n at least 2."""
        import numpy as np

        return np.array(list(tokens) * 2 if len(tokens) == 1 else tokens, np.int64)
