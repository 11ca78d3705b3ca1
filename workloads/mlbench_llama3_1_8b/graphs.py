"""The network as two graphs over one key-value cache: Hugging Face's Llama, with the scaled angles of Llama 3.1."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mlbench.toolkit.language import LanguageNetwork

NETWORK = LanguageNetwork(kind="LlamaForCausalLM", model_type="llama")

ROPE: Mapping[str, Any] = MappingProxyType(
    {
        "rope_theta": 500000.0,
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
)
"""Angles of positions: the slowest turn an eighth as fast as the base says, for 131,072 positions instead of 8,192."""

OFFICIAL_CONFIG: Mapping[str, Any] = MappingProxyType(
    {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_parameters": dict(ROPE),
        "tie_word_embeddings": False,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
    }
)
"""The configuration of Llama-3.1-8B-Instruct, where it differs from the default."""
