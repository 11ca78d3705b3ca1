"""Experts of a language model in operators that ONNX has."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

EXPERTS = "mlbench_own_model"
"""The name under which transformers knows `experts`."""
_ELSE = "grouped_mm"


def experts(layer: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of what the chosen experts make of each token.

    transformers computes it, but in an export to ONNX, which cannot sort tokens by expert: there every expert gets
    every token, and those not chosen weigh 0.

    Args:
        layer: one of transformers' layers of experts, with whatever gate and biases it has.
        hidden: (tokens, width).
        chosen: (tokens, experts per token) int64.
        weights: (tokens, experts per token).
    """
    if not torch.onnx.is_in_onnx_export():
        grouped: Tensor = ALL_EXPERTS_FUNCTIONS[_ELSE](layer, hidden, chosen, weights)
        return grouped
    shares = torch.zeros(hidden.shape[0], layer.num_experts, dtype=weights.dtype).scatter(1, chosen, weights)
    name = "gate_up_proj" if layer.has_gate else "up_proj"
    inner = _of_each(layer, name, hidden)  # (experts, tokens, one or two inner widths)
    inner = layer._apply_gate(inner) if layer.has_gate else layer.act_fn(inner)
    every = _of_each(layer, "down_proj", inner)
    if layer.has_post_expert_norm:
        every = layer.post_expert_norm(every)
    return (every * shares.T[:, :, None]).sum(dim=0).to(hidden.dtype)


def _of_each(layer: Any, name: str, values: Tensor) -> Tensor:
    """Return the products of (tokens, width), or (experts, tokens, width), with each expert's weights, and its bias."""
    matrices: Tensor = getattr(layer, name)
    products = values @ (matrices if layer.is_transposed else matrices.transpose(1, 2))
    return products + getattr(layer, f"{name}_bias")[:, None] if layer.has_bias else products


ALL_EXPERTS_FUNCTIONS.register(EXPERTS, experts)
