"""The order in which an engine starts the samples of a query that covers the dataset several times.

A query's samples may be sorted, those of a language model not across passes over the dataset. The engine is not asked:
the order in which first tokens, or else answers, arrive shows it.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from mlbench.contracts.engine import Capacity, Engine, Reply, Samples
from mlbench.execution.batching import passes

if TYPE_CHECKING:
    import numpy as np

logger = logging.getLogger(__name__)

_OF_A_PASS = 512
"""Most samples taken from each pass; all pairs of two passes are compared."""

_PAIRS = 1 << 24
"""Most pairs in all: of a query that covers the dataset a thousand times, fewer samples of each pass are taken."""

_FEWEST = 16
"""Fewest samples of a pass to compare; with fewer, chance would decide."""


class OrderedEngine(Engine):
    """Wraps an engine, and records the order in which it starts samples. It only forwards."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._queries: list[tuple[Sequence[int], Sequence[int], _NotedReply]] = []  # ids, indices, what came back

    def submit(self, samples: Samples, reply: Reply) -> None:
        """Pass a query on."""
        noted = _NotedReply(reply)
        self._queries.append((tuple(samples.ids), tuple(samples.indices), noted))
        self._engine.submit(samples, noted)

    def flush(self) -> None:
        """Pass it on."""
        self._engine.flush()

    def capacity(self) -> Capacity | None:
        """Return the engine's."""
        return self._engine.capacity()

    def influence_of_length(self, lengths: Callable[[Sequence[int]], Sequence[int]]) -> float | None:
        """Return how strongly length decides whether a sample starts before one of an earlier pass; see `influence`.

        Samples that the engine runs at the same time begin in any order: as many as it says it takes, and at least as
        many as were seen between first token and answer.

        Args:
            lengths: of the prompts of samples with these dataset indices.

        Returns:
            A number from 0, not at all, to 1: length alone decides. None where no query goes over the dataset
            twice, or a pass has not many more samples than run at the same time.
        """
        if not self._queries:
            return None
        ids, indices, noted = max(self._queries, key=lambda query: len(query[0]))
        capacity = self._engine.capacity()
        begun = noted.begun()
        parts = passes(indices)
        if len(parts) < 2 or not begun.keys() >= set(ids):
            return None
        together = max(noted.most_at_a_time(), capacity.in_flight if capacity else 0)
        most = max(_FEWEST, min(_OF_A_PASS, math.isqrt(_PAIRS // len(parts))))
        chosen = [_choose_samples(part, [begun[ids[place]] for place in part], together, most) for part in parts]
        wanted = sorted({indices[place] for part in chosen for place, _ in part})
        if not wanted:
            return None
        length_of = dict(zip(wanted, lengths(wanted), strict=True))
        return influence([[(rank, length_of[indices[place]]) for place, rank in part] for part in chosen])


def influence(parts: Sequence[Sequence[tuple[int, int]]]) -> float | None:
    """Return how strongly length decides whether a sample starts before one of the previous pass.

    Of all pairs of samples of two passes that follow each other, two shares: of those whose later sample is the longer
    one, how many begin with it; and the same where it is the shorter one. The result is how far apart the two are: 0
    where passes follow each other or are mixed in any way that length has no part in, 1 where all are sorted together.

    Args:
        parts: of each pass, some samples: when they began, in any unit, and their length.

    Returns:
        None where no pair of different lengths is left.
    """
    overtaken, pairs = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    for first, second in pairwise(parts):
        if min(len(first), len(second)) < _FEWEST:
            continue
        earlier, later = _columns(first), _columns(second)
        is_before = (later[0] < earlier[0][:, None]) + 0.5 * (later[0] == earlier[0][:, None])
        for is_longer in (True, False):
            are = later[1] > earlier[1][:, None] if is_longer else later[1] < earlier[1][:, None]
            overtaken[is_longer] += float(is_before[are].sum())
            pairs[is_longer] += int(are.sum())
    if not pairs[True] or not pairs[False]:
        return None
    return abs(overtaken[True] / pairs[True] - overtaken[False] / pairs[False])


def _columns(part: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    import numpy as np

    ranks, lengths = zip(*part, strict=True)
    return np.array(ranks), np.array(lengths)


def _choose_samples(part: range, ranks: Sequence[int], together: int, most: int) -> list[tuple[int, int]]:
    """Return positions and ranks of some samples of a pass, without those that may run beside the next pass."""
    begun = sorted(zip(part, ranks, strict=True), key=lambda each: each[1])
    begun = begun[: max(0, len(begun) - together)]
    return begun if len(begun) <= most else random.Random(part.start).sample(begun, most)


class _NotedReply(Reply):
    """Forwards answers, and records their order."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._came: list[tuple[Sequence[int], bool]] = []  # ids, and whether these are answers

    def complete(
        self, samples: Samples, outputs: np.ndarray | Sequence[np.ndarray], token_counts: Sequence[int] | None = None
    ) -> None:
        """Record and forward."""
        self._note(samples, is_answer=True)
        self._reply.complete(samples, outputs, token_counts)

    def first_token(self, samples: Samples, tokens: np.ndarray) -> None:
        """Record and forward."""
        self._note(samples, is_answer=False)
        self._reply.first_token(samples, tokens)

    def fail(self, samples: Samples, reason: str) -> None:
        """Forward; a run with a failed sample is INVALID whatever the order."""
        self._reply.fail(samples, reason)

    def invalidate(self, reason: str) -> None:
        """Pass on."""
        self._reply.invalidate(reason)

    def _note(self, samples: Samples, *, is_answer: bool) -> None:
        try:
            self._came.append((tuple(samples.ids), is_answer))
        except Exception:  # these are not samples, and who checks replies says so
            logger.debug("a reply without samples")

    def begun(self) -> dict[int, int]:
        """Return when each sample was first seen, by id; those of one call have the same time."""
        begun: dict[int, int] = {}
        for call, (ids, _) in enumerate(self._came):
            for id_ in ids:
                begun.setdefault(id_, call)
        return begun

    def most_at_a_time(self) -> int:
        """Return the largest number of samples that had a first token, but no answer yet."""
        running, most = set[int](), 0
        for ids, is_answer in self._came:
            (running.difference_update if is_answer else running.update)(ids)
            most = max(most, len(running))
        return most
