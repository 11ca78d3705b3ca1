"""Rows of a sample: the official aggregation of user-item pairs.

Source: MLPerf Inference v4.1, recommendation/dlrm_v2: a sample is a run of 100 to 700 rows, its size drawn from 20
quantiles by NumPy's legacy generator, seed 123; `dlrm_trace_of_aggregated_samples.txt` (zenodo record 3941795) is what
it gives for the official rows.
"""

from __future__ import annotations

import numpy as np

SEED = 123
QUANTILES = np.array([100] * 2 + [200] * 12 + [300] * 2 + [400, 500, 600, 700])


def sample_boundaries(rows: int) -> np.ndarray:
    """Return (samples + 1,) int64: sample i is the rows from the i-th boundary up to the next one.

    The last sample is cut off where the rows end.
    """
    draws = np.random.RandomState(SEED).randint(0, len(QUANTILES), size=-(-rows // QUANTILES.min()))
    ends = np.cumsum(QUANTILES[draws])
    inside = ends[: np.searchsorted(ends, rows)]
    return np.concatenate([[0], inside, [rows]])
