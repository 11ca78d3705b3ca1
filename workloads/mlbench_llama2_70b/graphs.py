"""The network as two graphs over one key-value cache: Hugging Face's Llama."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mlbench.toolkit.language import LanguageNetwork

NETWORK = LanguageNetwork(kind="LlamaForCausalLM", model_type="llama")

OFFICIAL_CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 32000,
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
)
"""The configuration of Llama-2-70b-chat-hf, where it differs from the default."""
