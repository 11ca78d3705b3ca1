"""The answers of a mock server: for the same prompt always the same words."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from mlbench_endpoint.loads.prompt_lengths import parse_lengths
from mlbench_endpoint.loads.words import WORDS
from mlbench_endpoint.mock_server.asked import AskedText

_DRAWN = 4096
"""Lengths that are drawn once, of which a prompt has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAnswer:
    """An answer before it is sent."""

    ids: Sequence[int]
    """Places of its words in `WORDS`."""
    finish: str
    """``length`` or ``stop``."""

    @property
    def words(self) -> list[str]:
        """Its tokens as text, without spaces."""
        return [WORDS[each] for each in self.ids]

    def differ_from(self, place: int) -> PlannedAnswer:
        """Return an answer of the same length with other words from a place on."""
        return replace(self, ids=[*self.ids[:place], *((each + 1) % len(WORDS) for each in self.ids[place:])])


class AnswerBook:
    """Has an answer to each prompt."""

    def __init__(self, lengths: str, seed: int) -> None:
        """Draw lengths from a distribution; empty: answers are as long as they may be.

        Raises:
            UsageError: the text describes no distribution.
        """
        import numpy as np

        self._seed = seed
        drawn = parse_lengths(lengths, "--answer-tokens") if lengths else None
        self._lengths = drawn.draw(np.random.default_rng(seed), _DRAWN).tolist() if drawn else []

    def answer(self, asked: AskedText) -> PlannedAnswer:
        """Return the answer to a request."""
        key = zlib.crc32("\n".join(asked.tokens).encode("utf-8", "surrogatepass"), self._seed & 0xFFFFFFFF)
        own = self._lengths[key % _DRAWN] if self._lengths and not asked.ignores_end else asked.limit
        count = min(own, asked.limit)
        ids = Random(key).choices(range(len(WORDS)), k=count)
        return PlannedAnswer(ids=ids, finish="length" if count == asked.limit else "stop")
