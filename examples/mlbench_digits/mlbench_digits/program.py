"""From pixels to digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlbench import BatchProgram, Executable, ReplySpec
from mlbench.toolkit import host_array


class Classification(BatchProgram):
    """Classifies a batch in one call of the graph; a reply is the digit, as int64."""

    reply = ReplySpec(dtype="int64", shape=(1,))

    def run(self, samples: Sequence[np.ndarray], graphs: Mapping[str, Executable]) -> np.ndarray:
        """Return (B, 1) int64: the most likely digit for each of B samples, (64,) float32 each."""
        outputs = graphs["classifier"]({"pixels": np.stack(samples)})
        return host_array(outputs["logits"]).argmax(axis=1, keepdims=True)
