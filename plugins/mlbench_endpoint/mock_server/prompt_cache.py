"""A prefix cache as servers keep it: blocks of tokens, each known by all tokens up to its end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence

BLOCK_TOKENS = 16
"""Tokens of a block, as in vLLM."""


class PrefixCache:
    """Blocks of prompts and answers, of which the longest unused one goes first."""

    def __init__(self, most_blocks: int) -> None:
        """Keep up to a number of blocks; 0: no cache."""
        self.most_blocks = most_blocks
        self._blocks: OrderedDict[int, None] = OrderedDict()

    @property
    def usage(self) -> float:
        """Share of the cache that is filled."""
        return len(self._blocks) / self.most_blocks if self.most_blocks else 0.0

    def match(self, tokens: Sequence[str]) -> int:
        """Return the number of tokens at the beginning that the cache has; the last token is always computed anew."""
        found = 0
        for block in _blocks(tokens[:-1]):
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            found += BLOCK_TOKENS
        return found

    def store(self, tokens: Sequence[str]) -> None:
        """Store all whole blocks of a prompt, or of a prompt with its answer."""
        for block in _blocks(tokens):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self.most_blocks:
            self._blocks.popitem(last=False)


def _blocks(tokens: Sequence[str]) -> Iterator[int]:
    """Yield a number for each whole block, which depends on all tokens before it."""
    number = 0
    for begin in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        number = hash((number, *tokens[begin : begin + BLOCK_TOKENS]))
        yield number
