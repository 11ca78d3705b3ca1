"""Replies that are token ids, as LoadGen's accuracy log holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlbench.contracts.metric import LoggedReply
from mlbench.errors import InvalidRunError

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer

LEAST_SHARED = 0.5
"""What two answers to one sample must share at least; see `tokens_agree`."""

_BLANKS = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")


def logged_tokens(replies: Sequence[LoggedReply], *, samples: int, dtype: str) -> Mapping[int, np.ndarray]:
    """Return the token ids of the first reply to each sample, by its index, in the order of the log.

    Args:
        replies: at least one.
        samples: how many samples there are.
        dtype: how a token is stored: int64 or int32.

    Raises:
        InvalidRunError: there is no reply, or one has an odd size, is to no known sample or holds what is no id.
    """
    import numpy as np

    if not replies:
        raise InvalidRunError("the accuracy log has no replies.")
    found: dict[int, np.ndarray] = {}
    element = np.dtype(dtype).newbyteorder("<")
    for reply in replies:
        if not 0 <= reply.index < samples:
            raise InvalidRunError(f"sample {reply.index} was answered, but there are {samples} samples.")
        if reply.index in found:
            continue
        if len(reply.data) % element.itemsize:
            raise InvalidRunError(f"the reply to sample {reply.index} has {len(reply.data)} bytes, not {dtype} tokens.")
        found[reply.index] = tokens = np.frombuffer(reply.data, element)
        if tokens.size and not 0 <= tokens.min() <= tokens.max() < 2**31:
            wrong = tokens[(tokens < 0) | (tokens >= 2**31)][0]
            raise InvalidRunError(f"the reply to sample {reply.index} holds {wrong}, which is no token id.")
    return found


def decoded(tokens: Sequence[np.ndarray], tokenizer: Tokenizer, *, tidies_blanks: bool = False) -> list[str]:
    """Return the texts of answers, special tokens left out.

    Args:
        tokens: (n,) ids each.
        tokenizer: of the model.
        tidies_blanks: whether blanks before English punctuation and contractions are dropped, as transformers did by
            default until 4.44.
    """
    texts: list[str] = tokenizer.decode_batch([ids.tolist() for ids in tokens], skip_special_tokens=True)
    return [_tidied(text) for text in texts] if tidies_blanks else texts


def _tidied(text: str) -> str:
    for before in _BLANKS:
        text = text.replace(before, before.strip())
    return text


def tokens_agree(reply: bytes, reference: bytes, *, dtype: str) -> bool:
    """Tell whether two answers to one sample are the same work: they share half their tokens, in any order.

    The share is twice the common tokens over the tokens of both. Equal bytes would ask too much: another batch rounds
    differently, a token whose rival is as likely tips over, and the rest of the answer follows it. What this does see
    are empty and constant answers, those cut off (below a third of the length none agrees), and those to other samples.
    """
    import numpy as np

    if reply == reference:
        return True
    element = np.dtype(dtype).newbyteorder("<")
    if len(reply) % element.itemsize or len(reference) % element.itemsize:
        return False
    ours, theirs = (Counter(np.frombuffer(data, element).tolist()) for data in (reply, reference))
    return 2 * (ours & theirs).total() >= LEAST_SHARED * (ours.total() + theirs.total())
