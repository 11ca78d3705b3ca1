"""The compliance test TEST06: a log of token replies holds complete answers with correct counts.

Source: MLPerf Inference v4.1, compliance/nvidia/TEST06/run_verification.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto

from mlbench.contracts.metric import LoggedReply

_WORDS = {True: "True", False: "False", None: "Skipped"}


class Fault(Enum):
    """The kinds of faults."""

    FIRST_TOKEN = auto()
    END = auto()
    LENGTH = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCompliance:
    """The result of the test; each field is true if all replies pass."""

    first_token: bool | None
    """The first token that was reported begins the answer. None in Offline, where none is reported."""
    end: bool
    """An answer ends with at most one end token; see `TokenForm.allows_two_ends`."""
    length: bool
    """The token count that was reported is the answer's."""

    @property
    def passed(self) -> bool:
        """Return whether nothing failed."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenForm:
    """The form of token replies."""

    dtype: str = "int64"
    """How a token is stored: int64 or int32."""
    end_tokens: tuple[int, ...] = (2,)
    most: int | None = None
    """Tokens of the longest answer; None: not known."""
    is_counted: bool = True
    """Whether token counts are reported."""
    has_first: bool = True
    """Whether first tokens are reported."""
    allows_two_ends: bool = True
    """Whether two end tokens and nothing else are an answer, as the script had it at first."""

    def length(self, reply: LoggedReply) -> int:
        """Return how many whole tokens a reply holds."""
        import numpy as np

        return len(reply.data) // np.dtype(self.dtype).itemsize

    def tokens(self, reply: LoggedReply) -> list[int]:
        """Return the whole tokens of a reply."""
        import numpy as np

        element = np.dtype(self.dtype).newbyteorder("<")
        found: list[int] = np.frombuffer(reply.data[: self.length(reply) * element.itemsize], element).tolist()
        return found


NEARLY_ALL = 0.9
"""Share of the maximum number of tokens: a server that returns text may tokenise it differently."""


def faults_of(reply: LoggedReply, form: TokenForm) -> Mapping[Fault, str]:
    """Return what TEST06 finds wrong with a reply, in words."""
    tokens, found = form.tokens(reply), {}
    if form.has_first and not (reply.token_data and reply.data.startswith(reply.token_data)):
        found[Fault.FIRST_TOKEN] = "the first token reported is not that of the answer"
    if len(tokens) > 1 + form.allows_two_ends and set(tokens[-2:]) <= set(form.end_tokens):
        found[Fault.END] = "the answer ends with more than one end token"
    if form.is_counted and (len(reply.data) != len(tokens) * _item_bytes(form) or reply.token_count != len(tokens)):
        found[Fault.LENGTH] = f"token count {reply.token_count} was reported for an answer of {len(tokens)} tokens"
    return found


def is_cut(reply: LoggedReply, form: TokenForm) -> bool:
    """Return whether an answer ends too early: without an end token and well below the allowed length."""
    tokens = form.tokens(reply)
    if form.most is not None and len(tokens) >= NEARLY_ALL * form.most:
        return False
    return not tokens or tokens[-1] not in form.end_tokens


def verify_test06(
    replies: Iterable[LoggedReply],
    *,
    has_first: bool,
    dtype: str = "int64",
    end_token: int = 2,
    allows_two_ends: bool = True,
) -> TokenCompliance:
    """Check the replies of a run under TEST06.

    Args:
        replies: of the accuracy log.
        has_first: whether first tokens were reported: in all scenarios but those that send all samples at once.
        dtype: how a token is stored: int64 or int32.
        end_token: of the model.
        allows_two_ends: as `TokenForm` has it; the round says it.
    """
    form = TokenForm(dtype=dtype, end_tokens=(end_token,), has_first=has_first, allows_two_ends=allows_two_ends)
    found = {fault for reply in replies for fault in faults_of(reply, form)}
    return TokenCompliance(
        first_token=Fault.FIRST_TOKEN not in found if form.has_first else None,
        end=Fault.END not in found,
        length=Fault.LENGTH not in found,
    )


def verify_official_test06(
    replies: Iterable[LoggedReply],
    *,
    has_first: bool,
    dtype: str = "int64",
    end_token: int | str = 2,
    allows_two_ends: bool = True,
) -> TokenCompliance:
    """Return what the official script says of a run's replies, blind spots included.

    Its check of the end passes always where the token was given on the command line, which leaves it text; the first
    element of an answer is never looked at. Its check of the first token passes where none was reported at all.

    Args:
        replies: of the accuracy log.
        has_first: whether first tokens were reported.
        dtype: how a token is stored.
        end_token: as the script has it: 2 by default, a text where it was given.
        allows_two_ends: whether two of them alone pass; the round says it.
    """
    form = TokenForm(dtype=dtype)
    first = end = length = True
    for reply in replies:
        tokens = form.tokens(reply)
        is_whole = len(reply.data) % _item_bytes(form) == 0
        begun = None if reply.token_data is None else form.tokens(replace(reply, data=reply.token_data))
        first &= is_whole and begun is not None and all(one == other for one, other in zip(tokens, begun, strict=False))
        end &= is_whole and not (len(tokens) > 1 + allows_two_ends and all(token == end_token for token in tokens[-2:]))
        length &= is_whole and reply.token_count == len(tokens)
    return TokenCompliance(first_token=first if has_first else None, end=end, length=length)


def _item_bytes(form: TokenForm) -> int:
    import numpy as np

    return np.dtype(form.dtype).itemsize
