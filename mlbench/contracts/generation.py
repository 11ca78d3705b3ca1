"""A generation program: defines how a language model answers a prompt, one token at a time.

It is data and two small methods; the in-flight engine (`mlbench.execution.generation`) does the decoding. It drives two
graphs that share one state, the key-value cache. A row of the state is a *slot*: it holds one sequence, with token
``p`` in column ``p``, and a token sees columns 0 .. p of its slot. So a slot can be reused without clearing it: old
values lie beyond the end of the new sequence.

``prefill`` reads pieces of prompts into slots:

======================  ==================  ===================================================================
``input_ids``           (rows, tokens)      int64; shorter pieces are filled up at their end
``positions``           (rows,)             int64; the column of each piece's first token
``slots``               (rows,)             int64; where each piece goes; all different
``last``                (rows,)             int64; which token of the piece is asked for what follows it
``columns``             (span,)             int64; 0, 1, 2, ...: how much of the cache is looked at; at least all
                                            that the call writes
======================  ==================  ===================================================================

``decode`` takes one token for each of the slots 0 .. rows - 1: ``input_ids`` (rows,), ``positions`` (rows,),
``columns`` (span,). A free slot among them gets a token too, and an unused column. Both return the likeliest next
tokens, best first, ties by lowest id: ``tokens`` (rows, choices) int64 and ``log_probabilities`` (rows, choices)
float32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from mlbench.contracts.reply_spec import ReplySpec

PREFILL = "prefill"
DECODE = "decode"
"""Names of the two graphs in `Model.graphs`."""

SLOTS = "slots"
LENGTH = "length"
"""Names of the dimensions of every state tensor: (slots, ..., length, ...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """Rules for choosing the next tokens and ending an answer. Source: each reference's arguments of ``generate``."""

    end_tokens: tuple[int, ...]
    """End tokens: the first of them ends an answer, and is its last token."""
    max_new_tokens: int
    min_new_tokens: int = 1
    """Number of tokens before which no end token may be chosen."""
    beams: int = 1
    """Number of beams. 1: the likeliest token each time. More: beam search that stops when this many answers have ended
    (early stopping); the score of an ended answer is its log-probability divided by its number of new tokens."""
    longest: int
    """Most positions that the model has, for prompt and answer together."""

    @property
    def choices(self) -> int:
        """Number of likeliest tokens that the graphs must return: enough even if all end tokens are excluded."""
        return self.candidates + len(self.end_tokens)

    @property
    def candidates(self) -> int:
        """Number of continuations that are considered over all beams: enough even if each beam also ends."""
        return self.beams * max(2, 1 + len(self.end_tokens)) if self.beams > 1 else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The prompt of one sample."""

    tokens: np.ndarray
    """(n,) int64, n at least 1."""
    stop: tuple[int, ...] = ()
    """Stop sequence: when prompt and answer end with these tokens, an end token follows; () for none. For one beam
    only."""

    def has_stopped(self, answer: Sequence[int] | np.ndarray) -> bool:
        """Return whether the prompt and the answer so far end with the stop sequence, and are longer than it."""
        length = len(self.stop)
        if not length or len(self.tokens) + len(answer) <= length:
            return False
        tail = [*self.tokens[-length:], *answer[-length:]][-length:]
        return all(token == wanted for token, wanted in zip(tail, self.stop, strict=True))


class GenerationProgram(ABC):
    """Describes autoregressive decoding of samples. It keeps no state between calls."""

    reply: ReplySpec
    decoding: Decoding

    @abstractmethod
    def prompt(self, sample: Any) -> Prompt:
        """Return the prompt of a loaded sample; called when the sample arrives, so it must be a lookup."""

    @abstractmethod
    def answer(self, tokens: Sequence[int]) -> np.ndarray:
        """Return the reply to a sample: the new tokens, in the form of `reply`."""
