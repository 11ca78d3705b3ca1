"""Numbers of operations of torch operators: two for each multiplication with its addition.

mlbench has its own formulas, by operator name: which operators torch has formulas for, and the names of its attention
kernels, change between releases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from torch import Tensor

CHECKED_WITH = ("2.9.0", "2.15.0")
"""The lowest and the highest torch with which all graphs of the nine workloads were counted."""

Formula = Callable[[Sequence[Any], Any], int]
"""From an operator's positional arguments and what it returned to the number of operations."""


def _count_product(left: Tensor, right: Tensor) -> int:
    """Count a product of matrices (..., m, k) and (..., k, n): for each number on the left, n products."""
    return 2 * left.numel() * right.shape[-1]


def _count_convolution(args: Sequence[Any], result: Tensor) -> int:
    """Count filters at all their positions; a transposed convolution puts its filters on the positions of its input."""
    is_transposed = len(args) > 6 and args[6] is True
    positions = (args[0] if is_transposed else result).shape
    return int(2 * positions[0] * prod(positions[2:]) * args[1].numel())


def _count_attention(args: Sequence[Any], result: object) -> int:
    """Count scores and sums, whatever the mask: queries (B, H, Q, D), keys (B, h, K, D), values (B, h, K, V)."""
    query, key, value = args[:3]
    tokens = key.shape[-2]
    return int(2 * query.numel() * tokens + 2 * (query.numel() // query.shape[-1]) * tokens * value.shape[-1])


def _count_bags(args: Sequence[Any], result: Sequence[Tensor]) -> int:
    """Count additions: a bag of n rows takes n - 1 additions for each number of its sum."""
    bags, width = result[0].shape
    return int((args[1].numel() - bags) * width)


FORMULAS: dict[str, Formula] = {
    **dict.fromkeys(("mm", "bmm", "_int_mm", "_scaled_mm"), lambda args, result: _count_product(args[0], args[1])),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm"), lambda args, result: _count_product(args[1], args[2])),
    **dict.fromkeys(
        ("convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "_slow_conv2d_forward"),
        _count_convolution,
    ),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_cudnn_attention",
            "_scaled_dot_product_fused_attention_overrideable",
        ),
        _count_attention,
    ),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), _count_bags),
}
"""By the name of an operator of torch's namespace ``aten``."""
