"""The compliance test TEST06: that a log of token replies holds whole answers, counted rightly.

Source: MLPerf Inference v4.1, compliance/nvidia/TEST06/run_verification.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mlbench.contracts.metric import LoggedReply

_WORDS = {True: "True", False: "False", None: "Skipped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCompliance:
    """What the test found; each is true where all replies pass."""

    first_token: bool | None
    """The first token that was reported begins the answer. None in Offline, where none is reported."""
    end: bool
    """An answer ends with at most one end token, unless it is two of them and nothing else."""
    length: bool
    """The token count that was reported is the answer's."""

    @property
    def passed(self) -> bool:
        """Tell whether nothing failed."""
        return self.first_token is not False and self.end and self.length

    @property
    def report(self) -> str:
        """Return the official ``verify_accuracy.txt``."""
        return (
            f"First token check pass: {_WORDS[self.first_token]}\n"
            f"EOS check pass: {_WORDS[self.end]}\n"
            f"Sample length check pass: {_WORDS[self.length]}\n"
            f"TEST06 verification {'complete' if self.passed else 'failed'}\n"
        )


def verify_test06(
    replies: Iterable[LoggedReply], *, scenario: str, dtype: str = "int64", end_token: int = 2
) -> TokenCompliance:
    """Check the replies of a run under TEST06.

    Args:
        replies: of the accuracy log.
        scenario: LoadGen's name; in all but Offline first tokens are reported.
        dtype: how a token is stored: int64 or int32.
        end_token: of the model.
    """
    import numpy as np

    element = np.dtype(dtype).newbyteorder("<")
    first_token, end, length = True, True, True
    for reply in replies:
        whole = len(reply.data) // element.itemsize * element.itemsize
        tokens = np.frombuffer(reply.data[:whole], element).tolist()
        first_token &= bool(reply.token_data) and reply.data.startswith(reply.token_data or b"")
        end &= len(tokens) <= 2 or tokens[-2:] != [end_token] * 2
        length &= whole == len(reply.data) and reply.token_count == len(tokens)
    return TokenCompliance(first_token=None if scenario == "Offline" else first_token, end=end, length=length)
