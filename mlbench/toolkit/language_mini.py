"""The Hugging Face folder that a recipe wrote: its tokenizer, and its model as graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mlbench.contracts.workload import Weights
from mlbench.documents import read_json_object
from mlbench.toolkit.language.tokenizer_files import TOKENIZER_FILE

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench.contracts.generation import Decoding
    from mlbench.contracts.graph import Graph
    from mlbench.toolkit.language.network import LanguageNetwork
    from mlbench.toolkit.mini_folder import MiniFolder

CONFIG_FILE = "config.json"
MODEL_FILES = (CONFIG_FILE, "model.safetensors")


def mini_tokenizer(files: MiniFolder) -> Tokenizer:
    """Return the tokenizer.

    Raises:
        DataError: its file is missing, or another than the recipe wrote.
    """
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(files.file(TOKENIZER_FILE)))


def mini_graphs(
    network: LanguageNetwork, files: MiniFolder, decoding: Decoding, weights: Weights
) -> Mapping[str, Graph]:
    """Return ``prefill`` and ``decode``, with the shipped weights or with seeded ones of the same sizes.

    Raises:
        DataError: ``config.json`` is missing or another than the recipe wrote; the weights are verified when a backend
            asks for a graph's module.
    """
    config = files.file(CONFIG_FILE)
    if weights is Weights.RANDOM:
        return network.random_graphs(read_json_object(config, what="shipped file"), decoding)
    sha256 = {name: files.sha256[name] for name in MODEL_FILES}
    fingerprint = hashlib.sha256("".join(sha256.values()).encode()).hexdigest()
    return network.build_graphs(files.path, decoding, fingerprint=fingerprint, sha256=sha256)
