"""A reply that waits for answers and drops them, for what is timed or warmed up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from mlbench.contracts.engine import Reply, Samples

if TYPE_CHECKING:
    import numpy as np


class AwaitedReply(Reply):
    """Waits for answers, and drops them."""

    def __init__(self, count: int) -> None:
        """Expect a number of samples."""
        self.failure = ""
        """Reason of the last failure; empty without one."""
        self.left = count
        """Samples that are neither answered nor failed."""
        self._lock = threading.Lock()
        self._done = threading.Event()
        if not count:
            self._done.set()

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Ignore it."""

    def complete(self, samples: Samples, outputs: Any, token_counts: Any = None) -> None:
        """Count answers."""
        self._count(len(samples))

    def fail(self, samples: Samples, reason: str) -> None:
        """Keep the reason."""
        self.failure = reason
        self._count(len(samples))

    def invalidate(self, reason: str) -> None:
        """Keep the reason, and stop waiting."""
        self.failure = reason
        self._done.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all are answered or failed; return False where that takes longer."""
        return self._done.wait(timeout_s)

    def _count(self, count: int) -> None:
        with self._lock:
            self.left -= count
            if self.left <= 0:
                self._done.set()
