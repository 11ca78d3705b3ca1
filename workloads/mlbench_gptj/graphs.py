"""The network as two graphs over one key-value cache: Hugging Face's GPT-J."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mlbench.toolkit.language import LanguageNetwork

NETWORK = LanguageNetwork(
    kind="GPTJForCausalLM",
    model_type="gptj",
    layers="n_layer",
    heads="n_head",
    cache_heads="n_head",
    width="n_embd",
    extras=r".*\.attn\.(masked_)?bias",  # the causal mask, which the official shards hold
)

OFFICIAL_CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 50400,
        "n_positions": 2048,
        "n_embd": 4096,
        "n_layer": 28,
        "n_head": 16,
        "rotary_dim": 64,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": False,
        "bos_token_id": 50256,
        "eos_token_id": 50256,
    }
)
"""The configuration of GPT-J-6B; dropout is inactive in inference."""
