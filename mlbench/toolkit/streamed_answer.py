"""An answer whose tokens arrive from a runtime, and its end by the workload's rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import index

from mlbench.contracts.generation import Decoding, Prompt


@dataclass(slots=True)
class StreamedAnswer:
    """The tokens of an answer, up to its end.

    It ends with the first end token, at the longest answer, or with an end token of ours where prompt and answer end
    with the prompt's stop sequence. Later tokens from a runtime are dropped.

    Raises:
        ValueError: the prompt can never be answered: it is empty, or leaves too few positions.
    """

    prompt: Prompt
    decoding: Decoding
    tokens: list[int] = field(default_factory=list, init=False)
    is_over: bool = field(default=False, init=False)
    """Whether the answer is complete; true from the start if the prompt ends with its stop sequence."""

    def __post_init__(self) -> None:
        count, decoding = len(self.prompt.tokens), self.decoding
        if not count:
            raise ValueError("the prompt is empty")
        if count + decoding.max_new_tokens > decoding.longest:
            raise ValueError(
                f"a prompt of {count} tokens and {decoding.max_new_tokens} new ones exceed the {decoding.longest} "
                "positions of the model"
            )
        self._end_at_stop_sequence()

    def add(self, tokens: Iterable[int]) -> None:
        """Take the tokens that came since the last call, in their order.

        Raises:
            TypeError: one is not an integer.
            ValueError: an end token comes before `Decoding.min_new_tokens`.
        """
        for token in tokens:
            if self.is_over:
                return
            self.tokens.append(index(token))
            if self.tokens[-1] in self.decoding.end_tokens:
                if len(self.tokens) <= self.decoding.min_new_tokens:
                    raise ValueError(
                        f"token {len(self.tokens)} is an end token, which may only follow "
                        f"{self.decoding.min_new_tokens} others"
                    )
                self.is_over = True
            elif len(self.tokens) >= self.decoding.max_new_tokens:
                self.is_over = True
            else:
                self._end_at_stop_sequence()

    def result(self) -> list[int]:
        """Return the tokens; raises ValueError where the answer is not over."""
        if not self.is_over:
            raise ValueError(f"the answer stopped after {len(self.tokens)} tokens without an end token")
        return self.tokens

    def _end_at_stop_sequence(self) -> None:
        """Add an end token where the stop sequence is complete."""
        if self.prompt.has_stopped(self.tokens):
            self.tokens.append(self.decoding.end_tokens[0])
            self.is_over = True
