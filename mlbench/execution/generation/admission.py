"""Decides which waiting requests start now, and groups their prompts."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from mlbench.execution.batching import passes
from mlbench.execution.generation.requests import Request

_ANSWERS_REMEMBERED = 64
"""The usual length of an answer is an average over about so many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The cost of calls: measured while warming up, estimated until then. Only their ratios matter."""

    decode_ns: float = 1.0
    """A decode step."""
    prefill_ns: float = 1.0
    """A prefill call, beside what each of its tokens costs."""
    prefill_token_ns: float = 0.02

    @property
    def call_tokens(self) -> float:
        """Most padding tokens of a call before two calls are cheaper."""
        return self.prefill_ns / self.prefill_token_ns


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt to read: it goes to these columns of a slot."""

    slot: int
    start: int
    length: int


class Admission:
    """The queue of requests, in the order of arrival; within one pass over the dataset, the longest prompts first.

    As long as there is room, a request starts at once, or waits ``max_wait_us`` for others. When more wait than
    there is room for, starting whenever a single slot comes free would spend a call on each; waiting for several slots
    leaves them idle. The number that loses least balances the two.
    """

    def __init__(self, *, slots: int, max_wait_us: int, is_static: bool) -> None:
        """Store the policy. ``is_static``: no request joins a running batch."""
        self.costs = Costs()
        self.slots = slots
        self.usual_answer = 32.0
        """Tokens of an answer; follows those that end."""
        self._max_wait_ns = 1000 * max_wait_us
        self._is_static = is_static
        self._is_flushed = False
        self._waiting: deque[Request] = deque()
        self._answers = self._tokens = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, requests: list[Request]) -> None:
        """Let the requests of a query wait, in the order of issue; sorts those of each pass over the dataset."""
        for part in passes([request.index for request in requests]):
            self._waiting += sorted(requests[part.start : part.stop], key=len, reverse=True)
        self._is_flushed = False

    def flush(self) -> None:
        """Stop waiting for more requests until some arrive."""
        self._is_flushed = True

    def clear(self) -> list[Request]:
        """Return all waiting requests, and remove them."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def note_answer(self, tokens: int) -> None:
        """Update the usual answer length."""
        self._answers += 1
        self._tokens += tokens
        self.usual_answer += (tokens - self.usual_answer) / _ANSWERS_REMEMBERED

    @property
    def mean_answer(self) -> float:
        """Tokens of an answer, over all that have ended; 0 where none has."""
        return self._tokens / max(1, self._answers)

    def next(self) -> Request:
        """Return the request that starts next, and remove it."""
        return self._waiting.popleft()

    def put_back(self, request: Request) -> None:
        """Take back what `next` gave."""
        self._waiting.appendleft(request)

    def starting(self, *, free: int, running: int, now_ns: int) -> int:
        """Return how many requests should start now.

        Args:
            free: slots there is room for.
            running: sequences that are being read or decoded.
            now_ns: the time, as `Request.arrived_ns` has it.
        """
        count = min(free, len(self._waiting))
        if not count or (self._is_static and running):
            return 0
        if len(self._waiting) > free and not self._is_static:
            return count if not running or free >= self.together else 0
        return count if self.wait_s(now_ns) == 0 else 0

    def wait_s(self, now_ns: int) -> float | None:
        """Return how long waiting requests may still wait for others while nothing runs; None if none waits."""
        if not self._waiting:
            return None
        if self._is_flushed or len(self._waiting) >= self.slots:
            return 0.0
        return max(0.0, (self._waiting[0].arrived_ns + self._max_wait_ns - now_ns) / 1e9)

    @property
    def together(self) -> int:
        """How many slots should be free before waiting requests start.

        ``n`` together save ``prefill / n`` on each request, and leave ``n / 2`` slots idle while ``n * answer / slots``
        steps go by. The loss is least where both grow alike.
        """
        steps = self.usual_answer * self.costs.decode_ns
        return max(1, min(self.slots // 2, round(self.slots * math.sqrt(2 * self.costs.prefill_ns / steps))))


def read_together(
    pieces: Sequence[Piece], costs: Costs, *, most_rows: int, most_tokens: int, length: int
) -> list[Piece]:
    """Return the pieces to read in one call: the first, and those that fit with little padding, the most similar first.

    Args:
        pieces: what each slot wants to have read next; none longer than ``most_tokens``.
        costs: decide how much padding is little.
        most_rows: in one call.
        most_tokens: in one call, padding included.
        length: of the cache; padding must not lie beyond it.
    """
    chosen = [pieces[0]]
    longest, last_start = pieces[0].length, pieces[0].start
    for piece in sorted(pieces[1:], key=lambda piece: abs(piece.length - longest)):
        wide, start = max(longest, piece.length), max(last_start, piece.start)
        rows = len(chosen) + 1
        padding = wide * rows - longest * len(chosen) - piece.length
        fits = rows <= most_rows and wide * rows <= most_tokens and start + wide <= length
        if fits and padding <= costs.call_tokens:
            chosen.append(piece)
            longest, last_start = wide, start
    return chosen
