"""Prepared answers: zeros of the required form, or tokens at a fixed rate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from mlbench import GenerationProgram, Reply, ReplySpec, Samples, UsageError
from mlbench_null.engine import Give

LARGEST_ANSWER_BYTES = 1 << 24
"""Largest answer of one call of `Reply.complete`; a longer answer is given in parts."""


class Zeros:
    """Arrays of zeros, reused for all answers; they are never written to."""

    def __init__(self, reply: ReplySpec, delay_ns: int) -> None:
        shape = tuple(size or 1 for size in reply.shape)
        self._delay_ns = delay_ns
        self._one = np.zeros((1, *shape), dtype=reply.dtype)
        self._most = max(1, LARGEST_ANSWER_BYTES // max(1, self._one.nbytes))
        self._zeros = self._one

    def acts(self, samples: Samples) -> Iterator[tuple[int, Samples, Give]]:
        """Answer everything together."""
        yield self._delay_ns, samples, self.give

    def give(self, samples: Samples, reply: Reply) -> None:
        """Answer all samples, in as few calls as the size of an answer allows."""
        count = len(samples.ids)
        if count == 1:
            reply.complete(samples, self._one)
            return
        if count > len(self._zeros):
            self._zeros = np.zeros((min(count, self._most), *self._one.shape[1:]), dtype=self._one.dtype)
        zeros = self._zeros
        if count <= len(zeros):
            reply.complete(samples, zeros[:count])
            return
        for start in range(0, count, len(zeros)):
            part = samples[start : start + len(zeros)]
            reply.complete(part, zeros[: len(part)])


class TokenStream:
    """Arbitrary tokens, with an end token last: the first after a delay, the others each a set time after the last.

    A sample's answer has the same length each time it is asked for. All requests are answered concurrently.
    """

    def __init__(self, program: GenerationProgram, *, fewest: int, most: int, delay_ns: int, token_ns: int) -> None:
        """Store the timing and the range of lengths.

        Args:
            program: whose answers these pretend to be.
            fewest: tokens of an answer; 0: as few as the program allows.
            most: lengths are drawn evenly from ``fewest`` to this; 0: all have ``fewest``.
            delay_ns: from arrival to the first token.
            token_ns: between two tokens.

        Raises:
            UsageError: the program does not allow an answer of such a length.
        """
        decoding = program.decoding
        least = min(max(2, decoding.min_new_tokens + 1), decoding.max_new_tokens)
        for name, length in (("tokens", fewest), ("most_tokens", most)):
            if length and not least <= length <= decoding.max_new_tokens:
                raise UsageError(
                    f"backend.{name} is {length}.", hint=f"An answer has {least} to {decoding.max_new_tokens} tokens."
                )
        self._fewest = fewest or least
        self._lengths = max(0, most - self._fewest) + 1
        self._delay_ns, self._token_ns = delay_ns, token_ns
        self._program = program
        self._end = decoding.end_tokens[0]
        self._word = next(token for token in range(len(decoding.end_tokens) + 1) if token not in decoding.end_tokens)
        self._reports_first = decoding.beams == 1
        self._answer = cache(self._make_answer)

    def acts(self, samples: Samples) -> Iterator[tuple[int, Samples, Give]]:
        """Report first tokens together, then answer those of equal length together, the short ones first."""
        if self._reports_first:
            yield self._delay_ns, samples, self._give_first
        places: dict[int, list[int]] = {}
        for place, index in enumerate(samples.indices):
            places.setdefault(self._length(index), []).append(place)
        for length, alike in sorted(places.items()):
            part = samples if len(alike) == len(samples) else samples.at(alike)
            yield self._delay_ns + (length - 1) * self._token_ns, part, self._give

    def give(self, samples: Samples, reply: Reply) -> None:
        """Report all tokens at once."""
        for _, part, give in self.acts(samples):
            give(part, reply)

    def _give_first(self, samples: Samples, reply: Reply) -> None:
        reply.first_token(samples, np.full((len(samples), 1), self._word, self._program.reply.dtype))

    def _give(self, samples: Samples, reply: Reply) -> None:
        answer = self._answer(self._length(samples.indices[0]))
        reply.complete(samples, [answer] * len(samples), [len(answer)] * len(samples))

    def _length(self, index: int) -> int:
        """Return a length for a sample; indices that follow each other give lengths that do not."""
        return self._fewest + (index * 2654435761 % 2**32) * self._lengths // 2**32

    def _make_answer(self, length: int) -> np.ndarray:
        return self._program.answer([self._word] * (length - 1) + [self._end])
