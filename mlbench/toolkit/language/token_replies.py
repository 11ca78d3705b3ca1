"""Replies that are token ids, as LoadGen's accuracy log holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlbench.contracts.metric import DifferenceLimits, LoggedReply
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Profile
from mlbench.errors import InvalidRunError
from mlbench.toolkit.difference_limits import limits_by_precision

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

MINI_LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=0.1, mean=0.005),
    half=DifferenceLimits(one=0.9, mean=0.03),
    eight_bits=DifferenceLimits(one=0.9, mean=0.07),
)
"""Limits for mini models; the workloads' READMEs have the measurements."""

FULL_LIMITS = limits_by_precision(
    fp32=DifferenceLimits(one=0.9, mean=0.02),
    half=DifferenceLimits(one=1.0, mean=0.5),
    eight_bits=DifferenceLimits(one=1.0, mean=0.5),
)
"""Limits for full models. Not measured: at low precision long answers diverge after some hundred tokens."""

_BLANKS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


def read_logged_tokens(replies: Sequence[LoggedReply], *, samples: int, dtype: str) -> Mapping[int, np.ndarray]:
    """Return the token ids of the first reply to each sample, by its index, in the order of the log.

    Args:
        replies: at least one.
        samples: how many samples there are.
        dtype: how a token is stored: int64 or int32.

    Raises:
        InvalidRunError: there is no reply, or one has an odd size, is to no known sample or holds no ids.
    """
    import numpy as np

    if not replies:
        raise InvalidRunError("the accuracy log has no replies.")
    found: dict[int, np.ndarray] = {}
    element = np.dtype(dtype).newbyteorder("<")
    for reply in replies:
        reply.check_index(samples)
        if reply.index in found:
            continue
        if len(reply.data) % element.itemsize:
            raise reply.size_error(f"{dtype} tokens")
        found[reply.index] = tokens = np.frombuffer(reply.data, element)
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < 2**31:
            wrong = tokens[(tokens < 0) | (tokens >= 2**31)][0]
            raise InvalidRunError(f"the reply to sample {reply.index} contains {wrong}, which is not a token id.")
    return found


def decode_answers(tokens: Sequence[np.ndarray], tokenizer: Tokenizer, *, tidies_blanks: bool = False) -> list[str]:
    """Return the texts of answers, special tokens left out.

    Args:
        tokens: (n,) ids each.
        tokenizer: of the model.
        tidies_blanks: whether blanks before English punctuation and contractions are dropped, as transformers did by
            default until 4.44.
    """
    texts: list[str] = tokenizer.decode_batch([ids.tolist() for ids in tokens], skip_special_tokens=True)
    return [_tidy(text) for text in texts] if tidies_blanks else texts


def _tidy(text: str) -> str:
    for before in _BLANKS:
        text = text.replace(before, before.strip())
    return text


def token_difference(reply: bytes, reference: bytes, *, dtype: str) -> float:
    """Return the share of the longer of two answers that is not in the other in the same order, 0 to 1.

    Equal bytes would be too strict at lower precisions: another batch rounds differently, a token with a close rival
    changes, and the rest may diverge. An answer cut in half has a difference of 0.5.
    """
    import numpy as np

    if reply == reference:
        return 0.0
    element = np.dtype(dtype).newbyteorder("<")
    if len(reply) % element.itemsize or len(reference) % element.itemsize:
        return 1.0
    ours, theirs = (np.frombuffer(data, element).tolist() for data in (reply, reference))
    return 1 - _longest_common(ours, theirs) / max(len(ours), len(theirs))


def _longest_common(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the longest list that both hold in order, with gaps.

    A bit stands for each place of ``first``. Source: H. Hyyro, Bit-parallel LCS-length computation revisited, 2004.
    """
    places: dict[int, int] = {}
    for place, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << place
    everywhere = open_places = (1 << len(first)) - 1
    for token in second:
        matched = open_places & places.get(token, 0)
        open_places = (open_places + matched | open_places - matched) & everywhere
    return len(first) - open_places.bit_count()


def token_limits(profile: Profile) -> Mapping[Precision, DifferenceLimits]:
    """Return the limits of the answers' difference from the accuracy run's, for each precision."""
    return MINI_LIMITS if profile is Profile.MINI else FULL_LIMITS
