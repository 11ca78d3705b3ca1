"""Sends samples to an engine outside LoadGen's test, and records times and contents of the answers."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.engine import Engine, Reply, Samples

_ADDRESSES, _APART = 1 << 46, 64
"""LoadGen's ids are addresses; small ids would show an engine that it is not being measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers, by position of the sample in the request."""

    lasted_ns: int
    """From the first query to the last answer."""
    outputs: Sequence[np.ndarray | None]
    """None for a sample that failed or was not answered."""
    first_ns: Sequence[int | None]
    """From the first query to the first token, where one was reported."""

    @property
    def tokens(self) -> int:
        """How many elements all outputs have."""
        return sum(0 if output is None else output.size for output in self.outputs)

    @property
    def is_whole(self) -> bool:
        """Whether every sample was answered."""
        return not any(output is None for output in self.outputs)


def ask(
    engine: Engine, dataset: Dataset, indices: Sequence[int], *, query: int | None = None, timeout_s: float
) -> Answers:
    """Ask an engine for samples, ``query`` at a time, each query after the answer to the last; None: all at once."""
    size = query or len(indices)
    first = secrets.randbelow(_ADDRESSES) + _ADDRESSES
    everything = Samples(list(range(first, first + _APART * len(indices), _APART)), list(indices), dataset)
    reply = _Noted(everything.ids)
    started_ns = time.perf_counter_ns()
    for start in range(0, len(indices), size):
        samples = everything[start : start + size]
        try:
            engine.submit(samples, reply)
        except Exception as error:  # an engine is not our code
            reply.fail(samples, f"{type(error).__name__}: {error}")
        if query is None:
            engine.flush()
        if not reply.wait(start + len(samples), timeout_s):
            break
    if query is not None:
        engine.flush()
    ended_ns = time.perf_counter_ns()
    firsts = [None if at_ns is None else at_ns - started_ns for at_ns in map(reply.firsts_ns.get, everything.ids)]
    outputs = list(map(reply.outputs.get, everything.ids))
    return Answers(lasted_ns=ended_ns - started_ns, outputs=outputs, first_ns=firsts)


class _Noted(Reply):
    """Keeps the first answer to each sample; answers after the wait are dropped."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.outputs: dict[int, np.ndarray] = {}
        self.firsts_ns: dict[int, int] = {}
        self._asked = set(ids)
        self._done: set[int] = set()
        self._changed = threading.Condition()

    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Keep the answers."""
        with self._changed:
            for id_, output in zip(samples.ids, outputs, strict=False):
                if id_ not in self._done:
                    self.outputs[id_] = np.array(output)
            self._note(samples)

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Keep when first tokens came."""
        now_ns = time.perf_counter_ns()
        for id_ in samples.ids:
            self.firsts_ns.setdefault(id_, now_ns)

    def fail(self, samples: Samples, reason: str) -> None:
        """Note that there will be no answer."""
        with self._changed:
            self._note(samples)

    def invalidate(self, reason: str) -> None:
        """Do nothing: samples sent here are judged by their answers."""

    def wait(self, count: int, timeout_s: float) -> bool:
        """Block until so many are done; return False when no answer at all came for ``timeout_s``."""
        with self._changed:
            while (before := len(self._done)) < count:
                if not self._changed.wait(timeout_s) and len(self._done) == before:
                    return False
        return True

    def _note(self, samples: Samples) -> None:
        self._done.update(self._asked.intersection(samples.ids))
        self._changed.notify_all()
