"""From token ids to a start and an end logit per token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mlbench import BatchProgram, Executable, ReplySpec
from mlbench.toolkit import host_array, pad_rows, round_up
from mlbench_bert.squad import TokenPair


class Reading(BatchProgram):
    """Reads a batch in one call of the graph ``reader``, padded to its own longest sample only.

    The reply to a sample is (tokens, 2) float32, start and end logit of each of its own tokens: the shorter form, which
    the official accuracy script fills up by itself. So its size does not depend on the other samples of the batch.
    """

    reply = ReplySpec(dtype="float32", shape=(None, 2))

    def __init__(self, *, outputs: tuple[str, str], largest: int, multiple: int = 16) -> None:
        """Store the names and sizes of the graph's tensors.

        Args:
            outputs: names of its outputs for start and end logits.
            largest: tokens it takes at most.
            multiple: batches are padded up to a multiple of so many tokens, so that few different shapes occur.
        """
        self._outputs = outputs
        self._largest = largest
        self._multiple = multiple

    def run(self, samples: Sequence[TokenPair], graphs: Mapping[str, Executable]) -> Sequence[np.ndarray]:
        """Return one (tokens, 2) float32 array per sample."""
        outputs = graphs["reader"](self.inputs(samples))
        starts, ends = (host_array(outputs[name]) for name in self._outputs)
        logits = np.stack([starts, ends], axis=-1)  # (B, padded tokens, 2)
        return [row[: self.length(sample)] for row, sample in zip(logits, samples, strict=True)]

    def inputs(self, samples: Sequence[TokenPair]) -> Mapping[str, np.ndarray]:
        """Return the graph's inputs for a batch, (B, padded tokens) int64 each, zero in the padding."""
        longest = max(self.length(sample) for sample in samples)
        length = min(round_up(longest, self._multiple), self._largest)
        return {
            "input_ids": pad_rows([sample.input_ids for sample in samples], length=length),
            "input_mask": pad_rows([np.ones_like(sample.input_ids) for sample in samples], length=length),
            "segment_ids": pad_rows([sample.segment_ids for sample in samples], length=length),
        }

    def length(self, sample: TokenPair) -> int:
        """Return the number of tokens."""
        return len(sample.input_ids)
