"""Clicks with a planted truth, in the form of the official data: what the mini profile learns, and is scored on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mlbench_dlrm_v2.architecture import DENSE_FEATURES
from mlbench_dlrm_v2.day_files import Day

LATENT = 4
"""Numbers that a table's row stands for, besides the one that is added to the logit as it is."""

FEATURE_PAIRS = 12
DENSE_TERMS = 6
STRENGTH = 1.1
INTERACTION = 0.8
OFFSET = -1.8

VALIDATION, TRAINING = 1, 2
"""Rows of one purpose never serve another: the generator of a chunk is seeded with it."""

CHUNK = 16_384
"""Rows drawn at a time, each chunk by a generator of its own."""

LOG_MEAN, LOG_DEVIATION = 1.75, 0.62
"""Approximate mean and deviation of ln(count + 3)."""


class PlantedTruth:
    """Model of a click: sums over hot indices, products of two features, and products of a feature and a count.

    Sums, because the network's pooling is a sum; products, because they are what a cross network is for; counts whose
    logarithm matters, each with a weight of its own, because that is what the official preprocessing is for.
    """

    def __init__(self, seed: int, table_rows: Sequence[int], hot_sizes: Sequence[int]) -> None:
        """Draw the truth; equal arguments, equal truths."""
        rng = np.random.default_rng([seed, 0])
        self._seed = seed
        self._table_rows = table_rows
        self._hot_sizes = hot_sizes
        self._factors = [rng.standard_normal((rows, LATENT + 1)).astype(np.float32) for rows in table_rows]
        self._pairs = [rng.choice(len(table_rows), 2, replace=False) for _ in range(FEATURE_PAIRS)]
        self._dense_weights = rng.standard_normal(DENSE_FEATURES)
        self._terms = [(rng.integers(DENSE_FEATURES), rng.integers(len(table_rows))) for _ in range(DENSE_TERMS)]

    def chunks(self, purpose: int, count: int) -> Iterator[Day]:
        """Yield ``count`` rows for a purpose, a chunk at a time."""
        for number, start in enumerate(range(0, count, CHUNK)):
            yield self._draw(min(CHUNK, count - start), np.random.default_rng([self._seed, purpose, number]))

    def day(self, count: int) -> Day:
        """Return the rows of the day that is validated and calibrated on."""
        parts = list(self.chunks(VALIDATION, count))
        hot = [np.concatenate(arrays) for arrays in zip(*(part.hot for part in parts), strict=True)]
        return Day(np.concatenate([part.dense for part in parts]), hot, np.concatenate([part.labels for part in parts]))

    def _draw(self, count: int, rng: np.random.Generator) -> Day:
        counts = np.floor(rng.lognormal(1, 1.2, (count, DENSE_FEATURES)))
        hot = [
            (rng.random((count, size)) ** 2 * rows).astype(np.int32)  # low indices are the frequent ones
            for rows, size in zip(self._table_rows, self._hot_sizes, strict=True)
        ]
        clicked = rng.random(count) < 1 / (1 + np.exp(-self._logit(np.log(counts + 3), hot)))
        return Day(np.log(counts + 3).astype(np.float32), hot, clicked.astype(np.int32)[:, np.newaxis])

    def _logit(self, logs: np.ndarray, hot: Sequence[np.ndarray]) -> np.ndarray:
        """Return (N,): how likely each row is clicked; ``logs`` is (N, 13)."""
        dense = (logs - LOG_MEAN) / LOG_DEVIATION
        sums = [
            factors[indices].sum(axis=1) / np.sqrt(indices.shape[1])
            for factors, indices in zip(self._factors, hot, strict=True)
        ]  # (N, LATENT + 1) each
        linear = sum(each[:, LATENT] for each in sums) / np.sqrt(len(sums))
        linear = linear + dense @ self._dense_weights / np.sqrt(DENSE_FEATURES)
        products = sum((sums[one] * sums[other])[:, :LATENT].sum(axis=1) for one, other in self._pairs)
        terms = sum(dense[:, column] * sums[feature][:, LATENT] for column, feature in self._terms)
        crossed = products / np.sqrt(FEATURE_PAIRS * LATENT) + terms / np.sqrt(DENSE_TERMS)
        logit: np.ndarray = STRENGTH * (linear + INTERACTION * crossed) + OFFSET
        return logit
