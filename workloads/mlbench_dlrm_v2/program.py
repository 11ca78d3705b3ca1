"""From rows of user-item pairs to click probabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np
from scipy.special import expit

from mlbench import BatchProgram, Executable, ReplySpec
from mlbench.toolkit import host_array

LARGEST_CALL = 16_384
"""Rows in one call of the graph at most: a runtime that gathers before it adds needs 110 kB a row at the full size."""

Sample = tuple[np.ndarray, Sequence[np.ndarray]]
"""Dense features (rows, 13) float32, and the indices of the categorical features, (rows, hot) int32: an array for each
feature, or one for several side by side."""


class Ranking(BatchProgram):
    """Ranks the pairs of all samples of a batch together, in calls of the graph ``ranker`` without any padding.

    The reply to a sample is (rows,) float32, the probability of a click of each of its rows: the shorter of the two
    official forms. The other repeats the label behind each prediction, which would put the labels into the timed path
    and would hide a reply that went to another sample: it brings its own labels.
    """

    reply = ReplySpec(dtype="float32", shape=(None,))

    def run(self, samples: Sequence[Sample], graphs: Mapping[str, Executable]) -> Sequence[np.ndarray]:
        """Return one (rows,) float32 array per sample."""
        logits = np.concatenate([host_array(graphs["ranker"](call)["logits"]) for call in self.calls(samples)])
        probabilities = sigmoid(logits)
        ends = list(accumulate(len(dense) for dense, _ in samples))
        return [probabilities[start:end] for start, end in pairwise([0, *ends])]

    def calls(self, samples: Sequence[Sample]) -> Iterator[Mapping[str, np.ndarray]]:
        """Yield the graph's inputs: the rows of all samples one after another, as few calls as they need."""
        dense = np.concatenate([dense for dense, _ in samples])
        indices = join_indices([hot for _, hot in samples])
        for start in range(0, len(dense), LARGEST_CALL):
            part = slice(start, start + LARGEST_CALL)
            yield {"dense": dense[part], "indices": indices[part]}


def join_indices(samples: Sequence[Sequence[np.ndarray]]) -> np.ndarray:
    """Return (all rows, 214) int32: feature beside feature, sample below sample; a view where all is one array."""
    if len(samples) == len(samples[0]) == 1:
        return samples[0][0]
    rows, columns = sum(len(hot[0]) for hot in samples), sum(part.shape[1] for part in samples[0])
    joined = np.empty((rows, columns), dtype=np.int32)
    start = 0
    for hot in samples:
        end = start + len(hot[0])
        np.concatenate(hot, axis=1, out=joined[start:end])
        start = end
    return joined


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """Return probabilities, float32; NaN stays NaN."""
    probabilities: np.ndarray = expit(logits)
    return probabilities
