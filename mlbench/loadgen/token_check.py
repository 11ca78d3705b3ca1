"""Checks reported tokens and token counts against the replies: LoadGen does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mlbench.contracts.reply_spec import ReplySpec


class TokenCheck:
    """Keeps the first tokens of samples until their answers arrive. Thread-safe."""

    def __init__(self) -> None:
        self._firsts: dict[int, int] = {}

    def first(self, ids: Sequence[int], tokens: np.ndarray) -> None:
        """Store the first token of each sample, (n, 1 or more)."""
        self._firsts.update(zip(ids, tokens[:, 0].tolist(), strict=True))

    def faults(
        self, ids: Sequence[int], outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None
    ) -> Iterator[tuple[int, str]]:
        """Yield the position of each sample whose answer contradicts what was reported, and the fault."""
        firsts = self._firsts
        counts: Sequence[int | None] = token_counts or [None] * len(ids)
        for position, (id_, output, count) in enumerate(zip(ids, outputs, counts, strict=True)):
            if count is not None and count != len(output):
                yield position, f"token count {count} for an answer of {len(output)} tokens"
            first = firsts.pop(id_, None)
            if first is not None and len(output) and first != output[0]:
                yield position, f"first token {first} was reported, and the answer begins with {output[0]}"


def token_check(spec: ReplySpec, *, wants_tokens: bool) -> TokenCheck | None:
    """Return a check of replies that are judged by tokens and consist of them; None for others."""
    is_tokens = spec.shape == (None,) and np.dtype(spec.dtype).kind in "iu" and not spec.is_text
    return TokenCheck() if wants_tokens and is_tokens else None
