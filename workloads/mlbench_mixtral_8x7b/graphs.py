"""The network as two graphs over one key-value cache: Hugging Face's Mixtral, with our own experts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlbench.toolkit.language import LanguageNetwork

if TYPE_CHECKING:
    from torch import Tensor

_FEW = 16
"""Tokens: of so many, each pair of a token and an expert is a product in a traced graph; of more, it takes less time to
find each expert's tokens than to read its weights for each. Chosen for layers of mini's size on one CPU."""

EXPERTS = "mlbench_mixtral_8x7b"
"""The name under which transformers knows `experts`."""

OFFICIAL_CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-5,
        "rope_theta": 1e6,
        "sliding_window": None,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
)
"""The configuration of Mixtral-8x7B-Instruct-v0.1, where it matters."""


def with_own_experts(network: Any) -> Any:
    """Return the network with `experts` in all layers."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(EXPERTS, experts)
    network.set_experts_implementation(EXPERTS)
    return network


def experts(layer: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of what the chosen experts make of each token.

    Run eagerly, each expert gets its own tokens, and so it does in a graph that is traced for a CPU where there are
    more than a few; of few, each pair of a token and an expert is a product, which a compiler makes one loop of. In
    ONNX, whose runtimes would copy an expert's weights for each pair, and in fp32 on a GPU, where torch would wait for
    the numbers of tokens, so that the call could not be recorded, every expert gets every token, and those not chosen
    weigh 0.

    Args:
        layer: transformers' `MixtralExperts`.
        hidden: (tokens, width).
        chosen: (tokens, experts per token) int64.
        weights: (tokens, experts per token).
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    if torch.onnx.is_in_onnx_export() or (hidden.is_cuda and layer.gate_up_proj.dtype == torch.float32):
        return _every_expert(layer, hidden, chosen, weights)
    if not isinstance(hidden, FakeTensor):
        grouped: Tensor = ALL_EXPERTS_FUNCTIONS["grouped_mm"](layer, hidden, chosen, weights)
        return grouped
    by_pair, tokens = partial(ALL_EXPERTS_FUNCTIONS["batched_mm"], layer), hidden.shape[0]
    if hidden.is_cuda or isinstance(tokens, int) or not _compiles_branches():
        pairs: Tensor = by_pair(hidden, chosen, weights)
        return pairs
    found: Tensor = torch.cond(tokens > _FEW, partial(_by_expert, layer), by_pair, (hidden, chosen, weights))
    return found


def _compiles_branches() -> bool:
    """Return whether torch is known to compile branches ahead of time: 2.14.1 does, 2.9.1 and 2.11.0 fail."""
    import torch

    return torch.__version__ >= "2.14"


def _by_expert(layer: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of experts' outputs, each computed only for its tokens; weights are read once."""
    import torch
    from torch.nn import functional

    each, order = chosen.flatten().sort()
    counts = (each[:, None] == torch.arange(layer.num_experts)).sum(dim=0).tolist()
    tokens, made = order // chosen.shape[1], []
    for expert, own in enumerate(torch.split(hidden[tokens], counts)):
        gates, values = functional.linear(own, layer.gate_up_proj[expert]).chunk(2, dim=-1)
        made.append(functional.linear(layer.act_fn(gates) * values, layer.down_proj[expert]))
    weighted = torch.cat(made) * weights.flatten()[order][:, None]
    return torch.zeros_like(hidden).index_add(0, tokens, weighted.to(hidden.dtype))


def _every_expert(layer: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the same sum, with all experts computed for all tokens."""
    import torch
    from torch.nn import functional

    tokens, count = hidden.shape[0], layer.num_experts
    shares = torch.zeros(tokens, count, dtype=weights.dtype, device=weights.device).scatter(1, chosen, weights)
    gates_and_values = functional.linear(hidden, layer.gate_up_proj.flatten(0, 1)).view(tokens, count, -1)
    gates, values = gates_and_values.chunk(2, dim=-1)  # (tokens, experts, inner width)
    inner = layer.act_fn(gates) * values * shares[:, :, None]
    every: Tensor = inner.flatten(1) @ layer.down_proj.transpose(1, 2).flatten(0, 1)
    return every


NETWORK = LanguageNetwork(kind="MixtralForCausalLM", model_type="mixtral", prepared=with_own_experts)
