"""Counts late queries while a test runs, so that one that cannot become valid can be ended."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LateLimits:
    """Beyond any of these a sample is late; None: there is no such limit."""

    latency_ns: int | None = None
    ttft_ns: int | None = None
    tpot_ns: int | None = None

    def is_late(self, begun_ns: int, first_ns: int, ended_ns: int, tokens: int) -> bool:
        """Return whether a sample with these moments, and so many tokens, was late."""
        if self.latency_ns is not None and ended_ns - begun_ns > self.latency_ns:
            return True
        if self.ttft_ns is not None and first_ns - begun_ns >= self.ttft_ns:
            return True
        return self.tpot_ns is not None and tokens > 1 and (ended_ns - first_ns) / (tokens - 1) >= self.tpot_ns


class LateCount:
    """Counts from when a sample is handed to the engine to when LoadGen is given its answer.

    LoadGen counts from when the sample was due, which is never later: what is late here is late there.
    """

    def __init__(self, limits: LateLimits, most: int) -> None:
        """Count beyond these limits; with more than ``most`` late samples the test is over."""
        self._limits = limits
        self._begun_ns: dict[int, int] = {}
        self._first_ns: dict[int, int] = {}
        self._lock = threading.Lock()
        self.most = most
        self.answered = 0
        self.late = 0
        self.latencies_ns = array("q")
        """Latencies of the answered samples, in the order of their answers."""
        self.is_over = False
        """Whether too many are late for the test to become valid; no more samples are counted then."""
        self.is_ended = False
        """Whether samples were held back for that reason."""

    @property
    def reason(self) -> str:
        """Return the reason for ending the test."""
        return f"ended early: {self.late} of {self.answered} answers were late, and the whole test may have {self.most}"

    def issued(self, ids: Sequence[int]) -> None:
        """Note that these samples are handed to the engine now."""
        self._begun_ns.update(dict.fromkeys(ids, time.perf_counter_ns()))

    def first_token(self, ids: Sequence[int]) -> None:
        """Note that LoadGen has been given the first tokens of these samples."""
        self._first_ns.update(dict.fromkeys(ids, time.perf_counter_ns()))

    def complete(self, ids: Sequence[int], token_counts: Sequence[int] | None = None) -> None:
        """Note that LoadGen has been given the answers to these samples."""
        now_ns = time.perf_counter_ns()
        with self._lock:
            for id_, tokens in zip(ids, token_counts or [1] * len(ids), strict=True):
                begun_ns, first_ns = self._begun_ns.pop(id_, None), self._first_ns.pop(id_, now_ns)
                if begun_ns is None or self.is_over:
                    continue
                self.answered += 1
                self.latencies_ns.append(now_ns - begun_ns)
                self.late += self._limits.is_late(begun_ns, first_ns, now_ns, tokens)
                self.is_over = self.late > self.most
