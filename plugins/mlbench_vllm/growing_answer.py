"""An answer as its tokens come, and when it is over by the workload's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlbench import Decoding, Prompt

_FINISHES = ("stop", "length")
"""The reasons for which vLLM ends a whole answer; its others say that something went wrong."""


@dataclass(slots=True)
class GrowingAnswer:
    """The tokens of an answer.

    vLLM knows end tokens and lengths. Stop sequences of token ids are followed here, since vLLM's are text: where
    prompt and answer end with one, an end token follows, and the rest of what vLLM computed is dropped.
    """

    prompt: Prompt
    decoding: Decoding
    tokens: list[int] = field(default_factory=list)
    is_over: bool = False

    def __post_init__(self) -> None:
        self._end_at_stop_sequence()

    def check(self) -> None:
        """Raise ValueError for a prompt that can never be answered."""
        count, decoding = len(self.prompt.tokens), self.decoding
        if not count:
            raise ValueError("the prompt is empty")
        if count + decoding.max_new_tokens > decoding.longest:
            raise ValueError(
                f"a prompt of {count} tokens and {decoding.max_new_tokens} new ones exceed the {decoding.longest} "
                "positions of the model"
            )

    def add(self, tokens: Sequence[int], finish: str | None) -> None:
        """Take tokens in their order, up to the end of the answer.

        Args:
            tokens: what came since the last call.
            finish: why vLLM says the answer has ended; None: it has not.

        Raises:
            ValueError: vLLM gave up.
        """
        if finish is not None and finish not in _FINISHES:
            raise ValueError(f"vLLM ended the answer with {finish!r}")
        for token in tokens:
            self.tokens.append(token)
            if token in self.decoding.end_tokens or len(self.tokens) >= self.decoding.max_new_tokens:
                self.is_over = True
            else:
                self._end_at_stop_sequence()
            if self.is_over:
                return
        if finish is not None:
            raise ValueError(f"vLLM ended the answer after {len(self.tokens)} tokens without an end token")

    def finished(self) -> list[int]:
        """Return the tokens; raises ValueError where the answer is not over."""
        if not self.is_over:
            raise ValueError(f"vLLM sent no more after {len(self.tokens)} tokens")
        return self.tokens

    def _end_at_stop_sequence(self) -> None:
        """Add an end token where prompt and answer end with the stop sequence, and do not consist of it."""
        stop = self.prompt.stop
        length = len(self.prompt.tokens) + len(self.tokens)
        if not stop or length <= len(stop) or (self.tokens and self.tokens[-1] != stop[-1]):
            return
        tail = [*self.prompt.tokens[-len(stop) :].tolist(), *self.tokens][-len(stop) :]
        if tail == list(stop):
            self.tokens.append(self.decoding.end_tokens[0])
            self.is_over = True
