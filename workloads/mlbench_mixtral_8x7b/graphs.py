"""The network as two graphs over one key-value cache: Hugging Face's Mixtral, whose experts depend on how it is run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlbench.toolkit.language import LanguageNetwork

if TYPE_CHECKING:
    from torch import Tensor

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


def with_exportable_experts(network: Any) -> Any:
    """Return the network with `experts` in all layers."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(EXPERTS, experts)
    network.set_experts_implementation(EXPERTS)
    return network


def experts(layer: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of what the chosen experts make of each token.

    Run eagerly, each expert gets its own tokens. How many those are depends on the data, which no exported graph can
    express, and in fp32 torch has a GPU send them back, so that the call cannot be recorded. In these two cases every
    expert gets every token, and the weights of those not chosen are 0.

    Args:
        layer: transformers' `MixtralExperts`.
        hidden: (tokens, width).
        chosen: (tokens, experts per token) int64.
        weights: (tokens, experts per token).
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.nn import functional
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    waits_for_gpu = hidden.is_cuda and layer.gate_up_proj.dtype == torch.float32
    if not (torch.compiler.is_exporting() or waits_for_gpu):
        # without numbers (to count operations) there are no groups: each pair of a token and an expert is a product
        way = "batched_mm" if isinstance(hidden, FakeTensor) else "grouped_mm"
        own: Tensor = ALL_EXPERTS_FUNCTIONS[way](layer, hidden, chosen, weights)
        return own
    tokens, count = hidden.shape[0], layer.num_experts
    shares = torch.zeros(tokens, count, dtype=weights.dtype, device=weights.device).scatter(1, chosen, weights)
    gates_and_values = functional.linear(hidden, layer.gate_up_proj.flatten(0, 1)).view(tokens, count, -1)
    gates, values = gates_and_values.chunk(2, dim=-1)  # (tokens, experts, inner width)
    inner = layer.act_fn(gates) * values * shares[:, :, None]
    every: Tensor = inner.flatten(1) @ layer.down_proj.transpose(1, 2).flatten(0, 1)
    return every


NETWORK = LanguageNetwork(kind="MixtralForCausalLM", model_type="mixtral", prepared=with_exportable_experts)
