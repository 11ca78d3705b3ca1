"""How far replies may move, for metrics that tell three widths of numbers apart."""

from __future__ import annotations

from collections.abc import Mapping

from mlbench.contracts.graph import Precision
from mlbench.contracts.metric import DifferenceLimits


def limits_by_precision(
    *, fp32: DifferenceLimits, half: DifferenceLimits, eight_bits: DifferenceLimits
) -> Mapping[Precision, DifferenceLimits]:
    """Return the limits of each precision.

    Args:
        fp32: of fp32.
        half: of bf16 and fp16.
        eight_bits: of int8 and fp8.
    """
    return {
        Precision.FP32: fp32,
        Precision.BF16: half,
        Precision.FP16: half,
        Precision.INT8: eight_bits,
        Precision.FP8: eight_bits,
    }
