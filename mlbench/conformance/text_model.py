"""The language model of the kit: a small Llama with seeded weights in a Hugging Face folder, and prompts for it.

Its greedy answers differ from prompt to prompt and wander through the vocabulary, and the likeliest token of each is so
far ahead of the next that fp32 decides alike on every machine (a test holds this). A token is one printable character,
so that text is cut into the tokens it was made of: a server of text can be checked as one of token ids.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np

from mlbench.contracts.generation import Decoding, Prompt
from mlbench.contracts.model import Model
from mlbench.errors import UsageError
from mlbench.system.documents import open_to_write
from mlbench.system.folders import make_cache_folder
from mlbench.toolkit import StoredSamples
from mlbench.toolkit.language import TOKENIZER_FILE, LanguageNetwork, TokenProgram

NETWORK = LanguageNetwork(kind="LlamaForCausalLM", model_type="llama")

END_TOKEN = 2
SPECIAL_TOKENS = ("<unk>", "<s>", "</s>")
VOCABULARY = 96
MAX_NEW_TOKENS = 24
POSITIONS = 256

DECODING = Decoding(end_tokens=(END_TOKEN,), max_new_tokens=MAX_NEW_TOKENS, longest=POSITIONS)

_SEED = 1
_WIDTH, _INNER, _LAYERS, _HEADS, _CACHE_HEADS, _HEAD_SIZE = 128, 256, 2, 4, 2, 32
_ATTENTION_SCALE = 2.0
"""Attention that tells positions apart makes answers depend on every token of the prompt."""

_CHARACTERS = [chr(code) for code in range(0x21, 0x7F) if chr(code) != "<"]
"""One for each token that is not special; without ``<`` none of the special ones can be spelled."""

_LONG = ((1, 11), (2, 12), (5, 11), (9, 28), (16, 8), (33, 9), (64, 0), (120, 3), (5, 5), (9, 11), (16, 10), (33, 12))
_ENDING = ((1, 16), (2, 11), (5, 55), (9, 4), (16, 32), (33, 7), (64, 7), (120, 20))
_TWIN = (33, 2)
"""Length and seed of prompts; those of the second list are answered with an end token."""

FULL = range(len(_LONG))
"""Prompts to which the model finds no end."""
ENDING = range(len(_LONG), len(_LONG) + len(_ENDING))
"""Prompts whose answers end by themselves."""
TWINS = range(ENDING.stop, ENDING.stop + 3)
"""Prompts that differ in one token: the second's first, the third's last is another than the first's."""


class KitPrompts(StoredSamples[Prompt]):
    """Prompts of 1 to 120 tokens, or others that are given."""

    def __init__(self, prompts: Sequence[Prompt] | None = None) -> None:
        """Store prompts; the fixed ones by default."""
        super().__init__(fixed_prompts() if prompts is None else prompts, "conformance-text-1")


@cache
def fixed_prompts() -> tuple[Prompt, ...]:
    """Return the prompts whose answers are known: `FULL`, `ENDING` and `TWINS`."""
    lists = [random_tokens(length, 1000 * length + seed) for length, seed in (*_LONG, *_ENDING, _TWIN)]
    twin = lists[-1]
    lists += [np.concatenate([[7], twin[1:]]), np.concatenate([twin[:-1], [3]])]
    return tuple(Prompt(tokens=tokens) for tokens in lists)


def random_tokens(length: int, seed: int) -> np.ndarray:
    """Return tokens that are not special: (length,) int64."""
    return np.random.default_rng(seed).integers(len(SPECIAL_TOKENS), VOCABULARY, length)


def text_model() -> Model:
    """Return the model: its folder in the cache for native engines, and two graphs with the same weights."""
    folder = text_folder()
    fingerprint = _digest(_files())
    return Model(
        name="conformance-text",
        graphs=NETWORK.build_graphs(folder, DECODING, fingerprint=fingerprint),
        program=TokenProgram(DECODING),
        weights_fingerprint=fingerprint,
        files=folder,
    )


def text_folder() -> Path:
    """Return the folder in the cache that holds the model, written where it is missing or another.

    Raises:
        UsageError: the cache cannot be written.
    """
    folder = make_cache_folder("language-model") / _digest(_files())[:12]
    if not _holds(folder, _files()):
        write_model(folder)
    return folder


def write_model(folder: Path) -> None:
    """Write the model as a Hugging Face folder: whole or not at all, in place of what is there.

    Raises:
        UsageError: it cannot be written, or the folder holds anything else.
    """
    files = _files()
    if folder.exists() and not _is_replaceable(folder, files):
        raise UsageError(f"{folder} exists, and contains other files than the kit's model.", hint="Name a new folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".language-model-", dir=folder.parent))
        try:
            beside.chmod(0o755)
            for name, content in files.items():
                with open_to_write(beside / name) as file:
                    file.write(content)
            if folder.exists() and not _holds(folder, files):
                shutil.rmtree(folder)
            os.rename(beside, folder)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    except OSError as error:
        if not _holds(folder, files):  # else it was there, or another process has written it this moment
            raise UsageError(f"{folder} cannot be written: {error.strerror}.", hint="Name another folder.") from None


def _holds(folder: Path, files: Mapping[str, bytes]) -> bool:
    try:
        return all((folder / name).read_bytes() == content for name, content in files.items())
    except OSError:
        return False


def _is_replaceable(folder: Path, files: Mapping[str, bytes]) -> bool:
    return folder.is_dir() and not folder.is_symlink() and {each.name for each in folder.iterdir()} <= files.keys()


def _digest(files: Mapping[str, bytes]) -> str:
    digest = sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()


@cache
def _files() -> Mapping[str, bytes]:
    """Return the files of the folder by name."""
    from safetensors.numpy import save

    return {
        "config.json": _config(),
        "generation_config.json": _json({"bos_token_id": 1, "eos_token_id": END_TOKEN, "do_sample": False}),
        TOKENIZER_FILE: _tokenizer(),
        "tokenizer_config.json": _json(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": SPECIAL_TOKENS[1],
                "eos_token": SPECIAL_TOKENS[END_TOKEN],
                "unk_token": SPECIAL_TOKENS[0],
                "clean_up_tokenization_spaces": False,
                "model_max_length": POSITIONS,
            }
        ),
        "model.safetensors": save(_weights(), metadata={"format": "pt"}),
    }


def _json(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _config() -> bytes:
    config = {
        "architectures": [NETWORK.kind],
        "model_type": NETWORK.model_type,
        "vocab_size": VOCABULARY,
        "hidden_size": _WIDTH,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _CACHE_HEADS,
        "head_dim": _HEAD_SIZE,
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": 1,
        "eos_token_id": END_TOKEN,
        "dtype": "float32",
        "torch_dtype": "float32",
    }
    return _json(config)


def _weights() -> dict[str, np.ndarray]:
    """Return the tensors by Llama's names, float32; the head never chooses ``<unk>`` or ``<s>``."""
    random = np.random.default_rng(_SEED)

    def matrix(rows: int, columns: int, scale: float = 1.0) -> np.ndarray:
        return random.standard_normal((rows, columns), np.float32) * np.float32(scale / math.sqrt(columns))

    found = {"model.embed_tokens.weight": matrix(VOCABULARY, _WIDTH)}
    for layer in range(_LAYERS):
        name = f"model.layers.{layer}"
        rows = {"q": _HEADS, "k": _CACHE_HEADS, "v": _CACHE_HEADS}
        for part, heads in rows.items():
            found[f"{name}.self_attn.{part}_proj.weight"] = matrix(heads * _HEAD_SIZE, _WIDTH, _ATTENTION_SCALE)
        found[f"{name}.self_attn.o_proj.weight"] = matrix(_WIDTH, _HEADS * _HEAD_SIZE, _ATTENTION_SCALE)
        found[f"{name}.mlp.gate_proj.weight"] = matrix(_INNER, _WIDTH)
        found[f"{name}.mlp.up_proj.weight"] = matrix(_INNER, _WIDTH)
        found[f"{name}.mlp.down_proj.weight"] = matrix(_WIDTH, _INNER)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            found[f"{name}.{norm}.weight"] = np.ones(_WIDTH, np.float32)
    found["model.norm.weight"] = np.ones(_WIDTH, np.float32)
    head = matrix(VOCABULARY, _WIDTH)
    head[:END_TOKEN] = 0
    found["lm_head.weight"] = head
    return found


def _tokenizer() -> bytes:
    """Return what `tokenizers` reads: a token for each character, and no rule that joins any."""
    special = [
        {"id": place, "content": token, "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for place, token in enumerate(SPECIAL_TOKENS)
    ]
    vocabulary = {token: place for place, token in enumerate((*SPECIAL_TOKENS, *_CHARACTERS))}
    tokenizer: dict[str, object] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Fuse"},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": SPECIAL_TOKENS[0],
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    return _json(tokenizer)
