"""Decoders of Hugging Face's that can be written as graphs over one key-value cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlbench.toolkit import foreign, read_json_object
from mlbench.toolkit.language import CacheShape, LanguageNetwork

CONFIG_FILE = "config.json"

FAMILIES = frozenset(
    {
        *("apertus", "arcee", "codegen", "cohere", "cohere2", "cwm", "dots1", "ernie4_5", "ernie4_5_moe", "exaone4"),
        *("flex_olmo", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "glm4_moe", "gpt2", "gpt_bigcode", "gpt_neox"),
        *("gpt_neox_japanese", "gpt_oss", "gptj", "granite", "granitemoe", "granitemoeshared", "hunyuan_v1_dense"),
        *("hunyuan_v1_moe", "jais2", "llama", "minimax_m2", "ministral", "ministral3", "mistral", "mixtral"),
        *("nanochat", "nemotron", "olmo", "olmo2", "olmo3", "olmoe", "persimmon", "phi", "phi3", "phimoe", "qwen2"),
        *("qwen2_moe", "qwen3", "qwen3_moe", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2"),
        "vaultgemma",
    }
)
"""Values of ``model_type``. Each keeps keys and values of one shape in all layers and nothing else of a sequence, and
takes positions and a mask; a test compares its graphs with the network's own logits."""

_MOST_LAYERS = 10_000
"""The largest models have some hundred; each layer is two tensors that are named one by one."""
_UNREAD = r".*\.rotary_emb\.inv_freq|.*\.(attn|attention)\.(masked_)?bias"
"""Angles, and the causal mask, which old checkpoints hold."""

_DIVIDES = "logits_scaling"
_SCALES = {
    **dict.fromkeys(("cohere", "cohere2"), "logit_scale"),
    **dict.fromkeys(("granite", "granitemoe", "granitemoeshared"), _DIVIDES),
}
"""The key of the number that multiplies logits, or divides them."""
_CAPPED = {"gemma2", "gemma3_text", "nanochat", "vaultgemma"}
"""Families with ``final_logit_softcapping``."""


def for_graphs(network: Any) -> Any:
    """Return a network whose head computes all that its class does to logits, and whose experts can be exported."""
    if any(hasattr(part, "is_concatenated") for part in network.modules()):
        from mlbench_own_model.language_experts import EXPERTS

        network.set_experts_implementation(EXPERTS)
    return _with_whole_head(network)


def _with_whole_head(network: Any) -> Any:
    """Return the network with the scale and the cap of logits in its head: the graphs call the head alone."""
    config, family = network.config, network.config.model_type
    scale = float(getattr(config, _SCALES[family])) if family in _SCALES else 1.0
    cap = float(config.final_logit_softcapping or 0.0) if family in _CAPPED else 0.0
    if scale != 1.0 or cap:
        from mlbench_own_model.language_head import WholeHead

        scale = 1 / scale if _SCALES.get(family) == _DIVIDES else scale
        network.set_output_embeddings(WholeHead(network.get_output_embeddings(), scale=scale, cap=cap))
    return network


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyNetwork(LanguageNetwork):
    """A family, whose configuration transformers reads: old folders leave much to its defaults."""

    extras: str = _UNREAD
    prepared: Callable[[Any], Any] = for_graphs

    def cache_shape(self, folder: Path) -> CacheShape:
        """Return the shape of the cache; raises `DataError` where ``config.json`` describes no network."""
        return self._cache(read_json_object(folder / CONFIG_FILE, what="model description"))

    def described(self, config: Mapping[str, Any]) -> Any:
        """Return transformers' configuration; raises `DataError` for values that it refuses."""
        with foreign(CONFIG_FILE, f"describes no {self.kind}"):
            return self._class.config_class.from_dict(dict(config))

    def _cache(self, config: Mapping[str, Any]) -> CacheShape:
        found = self.described(config)
        with foreign(CONFIG_FILE, f"describes no {self.kind}"):
            heads, layers = int(found.num_attention_heads), int(found.num_hidden_layers)
            cached = 1 if getattr(found, "multi_query", False) else getattr(found, "num_key_value_heads", None) or heads
            size = getattr(found, "head_dim", None) or found.hidden_size // heads
            shape = CacheShape(layers=layers, heads=int(cached), head_size=int(size))
            if min(shape.heads, shape.head_size) < 1 or not 1 <= layers <= _MOST_LAYERS:
                raise ValueError(f"{layers} layers with {shape.heads} heads of {shape.head_size} numbers are no cache")
        return shape


def family_of(model_type: str) -> FamilyNetwork | None:
    """Return the family of a ``model_type``; None for another, or one that the installed transformers lacks."""
    kind = class_named(model_type)
    return FamilyNetwork(kind=kind, model_type=model_type) if kind and model_type in FAMILIES else None


def class_named(model_type: str) -> str:
    """Return transformers' own class of causal language models of this type, by its name; empty if it has none."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    found: str = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model_type, "")
    return found
