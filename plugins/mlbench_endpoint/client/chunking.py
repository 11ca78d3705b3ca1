"""How the tokens of answers came: one by one, several in a chunk, or all together, as behind a proxy that buffers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from mlbench_endpoint.client.messages import Answered

_LONGEST_SHARE = 0.02
"""Chunks that come within this share of an answer's time, and faster than any model, came together."""

_FASTEST_TOKEN_NS = 100_000
_MOST_TOGETHER = 0.1
"""Share of answers that may have come together before a time per token is unknown."""

_MOST_JOINED = 0.5
"""Share of chunks that may have come with the one before, in one read, before the time between chunks is unknown."""

_SEVERAL = 1.2
"""Tokens per chunk, and chunks per token, from which on a reader should know of it."""

PER_TOKEN, BETWEEN = "per output token", "inter-token"


@dataclass(slots=True)
class Chunking:
    """Counts over the answers of a load that have several tokens."""

    answers: int = 0
    together: int = 0
    """Answers whose chunks after the first came together with it."""
    tokens: int = 0
    chunks: int = 0
    joined: int = 0
    """Chunks that were read together with the one before."""

    def add(self, message: Answered, tokens: int, gaps_ns: np.ndarray) -> None:
        """Count an answer, given its tokens and the times between its chunks (chunks - 1, int64)."""
        if tokens <= 1:
            return
        lasted_ns = int(gaps_ns.sum())
        is_short = lasted_ns <= _LONGEST_SHARE * (message.at_ns - message.sent_ns)
        self.answers += 1
        self.together += is_short and lasted_ns < _FASTEST_TOKEN_NS * (tokens - 1)
        self.tokens += tokens
        self.chunks += len(message.chunk_ns)
        self.joined += int((gaps_ns == 0).sum())

    def unknown(self) -> Mapping[str, str]:
        """Return the quantities that were not measured, with the reason."""
        if self.together > _MOST_TOGETHER * self.answers:
            reason = (
                f"the tokens of {self.together} of {self.answers} answers came together: buffered by a proxy, not "
                "streamed, or read late; the time to the first token is then that of the whole answer"
            )
            return {PER_TOKEN: reason, BETWEEN: reason}
        if self.joined > _MOST_JOINED * max(1, self.chunks - self.answers):
            return {BETWEEN: f"{self.joined} of {self.chunks} chunks came together with the one before, in bursts"}
        return {}

    def remarks(self) -> Iterator[str]:
        """Yield what a reader of times of tokens should know besides."""
        if 0 < self.together <= _MOST_TOGETHER * self.answers:
            yield f"the tokens of {self.together} of {self.answers} answers came together, buffered on their way"
        if self.chunks and self.together < self.answers and self.tokens >= _SEVERAL * self.chunks:
            yield (
                f"a chunk has {self.tokens / self.chunks:.3g} tokens on average, so the times between tokens are those "
                "between chunks, and a time per token is less than the model's by the tokens of the first chunk"
            )
        if self.chunks >= _SEVERAL * self.tokens > 0:
            yield (
                f"answers have {self.chunks / self.tokens:.3g} chunks for each token that is counted, so that the "
                "count may be too low, and times per token too long"
            )
