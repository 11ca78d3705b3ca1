"""Limits of differences between replies, for metrics that distinguish three widths of numbers."""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.contracts.metric import DifferenceLimits
from mlbench.contracts.precision import Precision


class LimitsByPrecision(dict[Precision, DifferenceLimits]):
    """Limits of the known precisions; of any other, those of eight bits: the widest that were measured."""

    def __missing__(self, precision: Precision) -> DifferenceLimits:
        """Return the limits of a precision that was not measured."""
        return self[Precision.INT8]


def limits_by_precision(
    *, fp32: DifferenceLimits, half: DifferenceLimits, eight_bits: DifferenceLimits
) -> Mapping[Precision, DifferenceLimits]:
    """Return the limits of each precision.

    Args:
        fp32: of fp32.
        half: of bf16 and fp16.
        eight_bits: of int8, fp8, and names that are not known.
    """
    known = {
        Precision.FP32: fp32,
        Precision.BF16: half,
        Precision.FP16: half,
        Precision.INT8: eight_bits,
        Precision.FP8: eight_bits,
    }
    return LimitsByPrecision(known)
