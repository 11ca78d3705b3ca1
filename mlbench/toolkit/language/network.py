"""A Hugging Face architecture as the graphs of a language model, with the weights of a folder or random ones."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mlbench.contracts.generation import Decoding
from mlbench.contracts.graph import Graph
from mlbench.contracts.precision import Precision
from mlbench.errors import DataError, first_line
from mlbench.system.documents import read_json_object
from mlbench.toolkit.files import refuse_unread, verify_file
from mlbench.toolkit.language.graphs import CacheShape, language_graphs
from mlbench.toolkit.language.hugging_face import check_config, check_memory, stored_weights
from mlbench.toolkit.language.quantization import refuse_quantised
from mlbench.toolkit.module_graph import build_seeded, module_of

RANDOM_SEED = 0

_DTYPES = {Precision.BF16: "bfloat16", Precision.FP16: "float16"}
"""Types in which weights of matrix products are read, by precision; for others they are read as fp32."""

_STORED = {"bfloat16": "BF16", "float16": "F16"}
"""Their codes in safetensors."""

Config = Mapping[str, Any]
"""The content of a ``config.json``."""


def _identity(network: Any) -> Any:
    return network


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageNetwork:
    """An architecture: which class it is, and where its configuration has what decides the size of the cache."""

    kind: str
    """The class, by its name in transformers: ``LlamaForCausalLM``."""
    model_type: str
    """As ``config.json`` says it: ``llama``."""
    layers: str = "num_hidden_layers"
    """The key of the number of layers; likewise the next three."""
    heads: str = "num_attention_heads"
    cache_heads: str = "num_key_value_heads"
    width: str = "hidden_size"
    extras: str = r".*\.rotary_emb\.inv_freq"
    """A pattern of what official checkpoints have and nothing reads: here the angles, which ``config.json`` decides."""
    prepared: Callable[[Any], Any] = _identity
    """Converts a network from transformers into the one to run."""

    def build_graphs(
        self, folder: Path, decoding: Decoding, *, fingerprint: str, sha256: Mapping[str, str] = MappingProxyType({})
    ) -> Mapping[str, Graph]:
        """Return ``prefill`` and ``decode`` with the weights of a Hugging Face folder, read when a backend asks.

        Args:
            folder: with ``config.json`` and safetensors.
            decoding: how answers are made.
            fingerprint: a hash of the folder's model.
            sha256: checksums by file name, those that are known; verified before the weights are read.

        Raises:
            DataError: ``config.json`` is missing, damaged, or of another architecture.
        """
        return language_graphs(
            lambda precision: self.trained(folder, precision, sha256=sha256),
            self.cache_shape(folder),
            decoding=decoding,
            fingerprint=fingerprint,
            code=[module_of(self.prepared)],
        )

    def random_graphs(self, config: Config, decoding: Decoding) -> Mapping[str, Graph]:
        """Return ``prefill`` and ``decode`` of a network of this configuration, with seeded weights."""
        fingerprint = f"{self.kind} {json.dumps(dict(config), sort_keys=True)}, seed {RANDOM_SEED}"
        return language_graphs(
            lambda precision: self.random(config),
            self._cache(config),
            decoding=decoding,
            fingerprint=fingerprint,
            code=[module_of(self.prepared)],
        )

    def trained(
        self,
        folder: Path,
        precision: Precision = Precision.FP32,
        *,
        sha256: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        """Return the network with the weights of a Hugging Face folder, in eval mode.

        Weights of matrix products are read in the precision, a file after the other, and all others in fp32.

        Raises:
            DataError: a file is missing, damaged or another than its checksum says, the weights are not all there, or
                they have no room in memory.
            UsageError: they are quantised.
        """
        import psutil
        import torch

        dtype = _DTYPES.get(precision, "float32")
        refuse_quantised(folder)
        check_memory(folder, psutil.virtual_memory().available, dtype)
        for name, checksum in sha256.items():
            verify_file(folder / name, sha256=checksum, what="model file")
        try:
            with _without_progress_bar():
                network, found = self._class_at(folder, dtype).from_pretrained(
                    folder,
                    dtype=getattr(torch, dtype),
                    local_files_only=True,
                    use_safetensors=True,
                    output_loading_info=True,
                )
        except Exception as error:  # the readers raise anything for a damaged file
            raise DataError(f"model cannot be read: {folder}: {first_line(error)}.") from None
        refuse_unread([str(name) for name in found["unexpected_keys"]], folder, self.extras)
        for problem in ("missing_keys", "mismatched_keys"):
            if names := sorted(map(str, found[problem])):
                raise DataError(f"{folder}: {problem.replace('_', ' ')}: {names[0]} ({len(names)} in all).")
        _return_fp32(network)
        return self.prepared(network.eval())

    def random(self, config: Config) -> Any:
        """Return the network with seeded weights, fp32, in eval mode; the global generator stays as it was."""
        return build_seeded(
            lambda: self.prepared(self._class(self._class.config_class(**config)).float().eval()), seed=RANDOM_SEED
        )

    def _class_at(self, folder: Path, dtype: str) -> Any:
        """Return the class, told which weights transformers is to keep in fp32.

        Embeddings that are stored in the precision stay in it: they are looked up, and what is found is made fp32.
        """
        import torch

        from mlbench.toolkit.torch_backend.matrix_weights import matrix_weights

        if dtype == "float32":
            return self._class
        with torch.device("meta"):
            network = self._class(self._class.config_class.from_pretrained(folder, local_files_only=True))
        lowered = {id(parameter) for parameter in matrix_weights(network)}
        lossless = {name for name, each in stored_weights(folder).items() if each.dtype == _STORED[dtype]}
        embeddings = {id(each.weight) for each in network.modules() if isinstance(each, torch.nn.Embedding)}
        kept = [
            f"^{re.escape(name)}$"
            for name, each in network.named_parameters()
            if id(each) not in lowered and not (id(each) in embeddings and name in lossless)
        ]
        # transformers renames old checkpoints' weights for classes of its own alone, and goes by the module
        own = {"_keep_in_fp32_modules_strict": kept, "__module__": self._class.__module__}
        return type(self.kind, (self._class,), own)

    @property
    def _class(self) -> Any:
        import transformers

        return getattr(transformers, self.kind)

    def cache_shape(self, folder: Path) -> CacheShape:
        """Return the shape of the cache of the model in a Hugging Face folder, by its ``config.json``.

        Raises:
            DataError: it is missing, damaged, or of another architecture.
        """
        check_config(folder, {"model_type": (self.model_type,)})
        config = read_json_object(folder / "config.json", what="model description")
        for name in (self.layers, self.heads, self.cache_heads, self.width):
            if type(config.get(name)) is not int or config[name] < 1:
                raise DataError(f"{folder / 'config.json'} has {name} = {config.get(name)}, expected a number above 0.")
        return self._cache(config)

    def _cache(self, config: Config) -> CacheShape:
        head_size = config[self.width] // config[self.heads]
        return CacheShape(layers=config[self.layers], heads=config[self.cache_heads], head_size=head_size)


def _return_fp32(network: Any) -> None:
    """Let embeddings that are kept in a lower precision return fp32, as those in fp32 do."""
    import torch

    def as_fp32(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output.float()

    for part in network.modules():
        if isinstance(part, torch.nn.Embedding) and part.weight.dtype != torch.float32:
            part.register_forward_hook(as_fp32)


@contextmanager
def _without_progress_bar() -> Iterator[None]:
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()
