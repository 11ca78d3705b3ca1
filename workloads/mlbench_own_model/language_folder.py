"""A user's Hugging Face folder: what its files say of the model, and whether graphs can be made of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlbench import DataError, UsageError
from mlbench.toolkit import read_json_object
from mlbench.toolkit.language import (
    TOKENIZER_FILE,
    open_tokenizer,
    read_scheme,
    tokenizing,
    weight_files,
    weights_fingerprint,
)
from mlbench_own_model.language_families import CONFIG_FILE, FamilyNetwork, class_named, family_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_GENERATION_FILE = "generation_config.json"
_POSITIONS = ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length")
_CHOOSES_CODE = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
"""Keys by which transformers would look for kernels, which are code, on the network."""
_CAUSAL = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")
"""Ends of names; the last is that of models that also take images or sound."""
_MOST_IDS = 1 << 24
"""The largest vocabularies have some hundred thousand."""
_GROWING = ("dynamic", "longrope")
"""Kinds of angles that are others once a sequence is longer than those of the training."""
_ELSEWHERE = "vllm and endpoint load the folder themselves: choose one of them."


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageFolder:
    """What the files say."""

    path: Path
    config: Mapping[str, Any]
    """The content of ``config.json``."""
    text: Mapping[str, Any]
    """The part that describes the language model; of most the whole."""
    end_tokens: tuple[int, ...]
    special: Collection[int]
    """Ids of tokens that begin, end or pad."""
    vocabulary: int
    """Number of token ids."""
    positions: int | None
    """Tokens of prompt and answer together; None: the files do not say."""

    @classmethod
    def read(cls, path: Path | None) -> LanguageFolder:
        """Read the descriptions in a folder.

        Raises:
            UsageError: there is none, or it is a model of another kind.
            DataError: a description is missing or damaged.
        """
        if path is None or not path.is_dir():
            raise UsageError(f"there is no model folder {str(path)!r}.", hint="Name a Hugging Face folder: --model.")
        config = read_json_object(path / CONFIG_FILE, what="model description", hint="Name a Hugging Face folder.")
        inner = config.get("text_config")
        text = {**config, **inner} if isinstance(inner, dict) else config
        _check_kind(path, config)
        generation = path / _GENERATION_FILE
        said = read_json_object(generation, what="generation settings") if os.path.lexists(generation) else {}
        end = _ids(said.get("eos_token_id", text.get("eos_token_id")), "eos_token_id", path)
        others = [_ids(text.get(name), name, path) for name in ("bos_token_id", "pad_token_id")]
        vocabulary = _count(text, ("vocab_size",), path)
        if vocabulary is None or vocabulary > _MOST_IDS:
            found = "no vocab_size" if vocabulary is None else f"vocab_size = {vocabulary}, more than {_MOST_IDS}"
            raise DataError(f"{path / CONFIG_FILE} has {found}.", hint="Give the number of token ids.")
        return cls(
            path=path,
            config=config,
            text=text,
            end_tokens=tuple(each for each in end if each < vocabulary),
            special={*end, *(each for some in others for each in some)},
            vocabulary=vocabulary,
            positions=_count(text, _POSITIONS, path),
        )

    @property
    def architecture(self) -> str:
        """Its name in ``config.json``, or the model's type."""
        return _architecture(self.config) or str(self.config.get("model_type"))

    @property
    def kind(self) -> str:
        """Name of transformers' own class for it; empty if there is none, or the folder comes with another class."""
        found, named = class_named(str(self.config.get("model_type"))), _architecture(self.config)
        return found if not named or named.lower() == found.lower() else ""

    @property
    def scheme(self) -> str:
        """Quantisation of the weights, which only some runtimes read; empty: none. Raises as `read_scheme`."""
        return read_scheme(self.path)

    def tokenizer(self) -> Tokenizer | None:
        """Return the tokenizer; None where the folder has none. Raises `DataError` for one that is damaged."""
        return open_tokenizer(self.path) if os.path.lexists(self.path / TOKENIZER_FILE) else None

    def text_of(self) -> Callable[[Sequence[int]], str] | None:
        """Return the function that makes text of tokens; None where the folder has no tokenizer."""
        tokenizer = self.tokenizer()
        if tokenizer is None:
            return None

        def text_of(tokens: Sequence[int]) -> str:
            with tokenizing(self.path):
                text: str = tokenizer.decode(list(tokens), skip_special_tokens=False)
            return text

        return text_of

    def fingerprint(self) -> str:
        """Return a hash of description and weights; raises `DataError` where there are no safetensors."""
        weight_files(self.path)
        return weights_fingerprint(self.path)

    def family(self, longest: int) -> FamilyNetwork | str:
        """Return the network that graphs are made of, or in words why there are none.

        Args:
            longest: tokens of a prompt and its answer.
        """
        network = family_of(str(self.config.get("model_type")))
        if network is None or not self.kind:
            return f"mlbench has no graphs of {self.architecture}, and {_ELSEWHERE}"
        if scheme := self.scheme:
            return f"The weights of this {self.architecture} are quantised ({scheme}), and {_ELSEWHERE}"
        described = network.described(self.config)
        if longest > (window := _window(described) or longest):
            return (
                f"{self.architecture} looks back {window} tokens, and prompt and answer have up to {longest}, which "
                f"mlbench's graphs would see whole. Shorten them (--dim), or: {_ELSEWHERE}"
            )
        kind, learned = _angles(described)
        if kind in _GROWING and longest > learned:
            return (
                f"{self.architecture} has {kind} positions, which are others beyond {learned} tokens, and prompt and "
                f"answer have up to {longest}. Shorten them (--dim), or: {_ELSEWHERE}"
            )
        return network


def _architecture(config: Mapping[str, Any]) -> str:
    """Return the name of the class that a description has first; empty if it has none."""
    named = config.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def _window(described: Any) -> int | None:
    """Return how many tokens a layer looks back; None: all of them, in all layers."""
    kinds = getattr(described, "layer_types", None)
    if kinds and set(kinds) == {"full_attention"}:
        return None
    window: int | None = getattr(described, "sliding_window", None)
    return window


def _angles(described: Any) -> tuple[str, int]:
    """Return the kind of rotary positions, and the longest sequence of the training."""
    rope = getattr(described, "rope_parameters", None)
    found = rope if isinstance(rope, dict) else {}
    positions = int(getattr(described, "max_position_embeddings", None) or 0)
    named = "original_max_position_embeddings"
    learned: int = found.get(named) or getattr(described, named, None) or positions
    return str(found.get("rope_type", "default")), learned


def _check_kind(path: Path, config: Mapping[str, Any]) -> None:
    """Raise `UsageError` for a model that is no causal language model, or whose description chooses code."""
    name = _architecture(config)
    if config.get("is_encoder_decoder") or (name and not name.endswith(_CAUSAL)):
        kind = name or "model with an encoder"
        raise UsageError(f"{path} is a {kind}, not a causal language model.", hint="Export it as ONNX, and give that.")
    if chosen := next((key for key in _CHOOSES_CODE if config.get(key)), None):
        raise UsageError(f"{path / CONFIG_FILE} chooses code by {chosen}.", hint="Delete that key.")


def _count(config: Mapping[str, Any], names: Collection[str], path: Path) -> int | None:
    """Return the first of these numbers that a description has."""
    for name in names:
        if (value := config.get(name)) is not None:
            if type(value) is not int or value < 1:
                raise DataError(f"{path / CONFIG_FILE} has {name} = {value}, expected a number above 0.")
            return value
    return None


def _ids(value: object, name: str, path: Path) -> list[int]:
    """Return token ids, of which a description has none, one or several."""
    found: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
    if wrong := [each for each in found if type(each) is not int or each < -1]:
        raise DataError(f"{path} has {name} = {wrong[0]!r}, expected token ids.", hint="See its configuration files.")
    return [each for each in found if each >= 0]
