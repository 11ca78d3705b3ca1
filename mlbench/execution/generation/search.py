"""The interface between a decoding strategy and the decode loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mlbench.contracts.generation import Prompt
from mlbench.execution.generation.cache import Choices


@dataclass(frozen=True, slots=True)
class Copies:
    """Rows of the cache to copy before the next decode step."""

    sources: list[int]
    targets: list[int]
    columns: range


class Search(Protocol):
    """Keeps unfinished answers by slot, and chooses their next tokens."""

    input_ids: np.ndarray
    """By row of the cache: the token that the next decode step takes."""

    def start(self, slots: list[int], prompts: list[Prompt], choices: Choices, /) -> list[int]:
        """Begin answers, given a row of choices for each; return the slots whose answers have ended already."""

    def advance(self, running: np.ndarray, choices: Choices, /) -> list[int]:
        """Go on, given choices for all rows; return the slots whose answers have ended."""

    def copies(self) -> Copies | None:
        """Return which rows must be copied now, once."""

    def answer(self, slot: int, /) -> list[int]:
        """Return the new tokens of an answer that has ended."""

    def first_tokens(self, slots: list[int], /) -> np.ndarray | None:
        """Return the first tokens of answers, (n, 1); None where they are known only at the end."""

    def move(self, source: int, target: int, /) -> None:
        """Move an answer to another slot."""
