"""Base classes for profiles of language workloads: a Hugging Face folder, its tokenizer, its model as graphs."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mlbench.contracts.workload import Weights
from mlbench.errors import UsageError
from mlbench.system.documents import read_json_object
from mlbench.toolkit.language.hugging_face import (
    ModelDescription,
    check_config,
    read_config,
    weights_fingerprint,
)
from mlbench.toolkit.language.quantization import read_scheme
from mlbench.toolkit.language.token_program import TokenProgram
from mlbench.toolkit.language.tokenizer_files import TOKENIZER_FILE
from mlbench.toolkit.official_form import list_deviations
from mlbench.toolkit.profiles import F_co, ProfileParts, ShippedProfile, UserFilesProfile, check_files

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench.contracts.graph import Graph
    from mlbench.toolkit.language.network import Config, LanguageNetwork

CONFIG_FILE = "config.json"
MODEL_FILES = (CONFIG_FILE, "model.safetensors")


class LanguageProfile(ProfileParts):
    """A profile whose model is a causal language model."""

    network: ClassVar[LanguageNetwork]
    """The architecture."""

    @property
    @abstractmethod
    def program(self) -> TokenProgram:
        """Rules for generating answers."""

    @abstractmethod
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer; raises `DataError` where its file is missing or damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedLanguageProfile(ShippedProfile, LanguageProfile):
    """The mini profile of a language workload: a Hugging Face folder that a recipe wrote."""

    output_unit = "of the tokens"

    @property
    def folder(self) -> Path:
        """The Hugging Face folder."""
        return self.files.path

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that the recipe made.

        Raises:
            DataError: its file is missing, or another than the recipe wrote.
        """
        from tokenizers import Tokenizer

        return Tokenizer.from_file(str(self.files.file(TOKENIZER_FILE)))

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return ``prefill`` and ``decode``, with the shipped weights or with seeded ones of the same sizes.

        Raises:
            DataError: ``config.json`` is missing or another than the recipe wrote; the weights are verified when a
                backend asks for a graph's module.
        """
        config, decoding = self.files.file(CONFIG_FILE), self.program.decoding
        if weights is Weights.RANDOM:
            return self.network.random_graphs(read_json_object(config, what="shipped file"), decoding)
        sha256 = {name: self.files.sha256[name] for name in MODEL_FILES}
        fingerprint = hashlib.sha256("".join(sha256.values()).encode()).hexdigest()
        return self.network.build_graphs(self.folder, decoding, fingerprint=fingerprint, sha256=sha256)


class LanguageFilesProfile(UserFilesProfile[F_co], LanguageProfile):
    """The full profile of a language workload: the Hugging Face folder that the options name, or random weights.

    The options have ``data``, ``weights``, ``smaller`` and ``layers``: the number of random layers, 0 for all.
    """

    workload: ClassVar[str]
    """Its name."""
    official_config: ClassVar[Config]
    """The official ``config.json``, as far as it decides the model."""
    options: Any
    weights: Weights

    @property
    def config(self) -> ModelDescription:
        """The official configuration; of a smaller set what its folder says.

        Raises:
            DataError: that folder's ``config.json`` is missing or damaged.
        """
        if not self.options.smaller or not self.folder:
            return ModelDescription(self.official_config)
        return read_config(self.folder)

    @property
    def deviations(self) -> tuple[str, ...]:
        """Differences of files and configuration from the official ones."""
        return (*self.form.deviations, *list_deviations(self.official_config, self.config.values))

    @property
    def allowed_config(self) -> Mapping[str, Collection[object]]:
        """Allowed values in the ``config.json`` of the user's folder."""
        return {name: (self.config[name],) for name in self.official_config}

    @property
    def folder(self) -> Path | None:
        """The Hugging Face folder; None for random weights."""
        return Path(self.options.weights) if self.options.weights else None

    @property
    def stores(self) -> str:
        """Quantisation of the folder's weights, which torch's graphs refuse; raises `DataError` as `read_scheme`."""
        return read_scheme(self.folder) if self.folder else ""

    def check(self) -> None:
        """Raise `UsageError` for options that are missing or not used."""
        layers, most_layers = self.options.layers, self.official_config[self.network.layers]
        if self.weights is Weights.TRAINED and layers:
            raise UsageError("trained weights have all their layers.", hint="Leave out workload.layers.")
        if not 0 <= layers <= most_layers:
            raise UsageError(f"workload.layers is {layers}, but {self.workload} has {most_layers} layers.")
        check_files(self.workload, self.weights, self.options, {"data": "data", "weights": "weights"})

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return ``prefill`` and ``decode``, with the user's weights or random ones.

        Raises:
            DataError: the folder holds another model than the official one.
        """
        decoding = self.program.decoding
        if weights is Weights.RANDOM:
            layers = self.options.layers or self.official_config[self.network.layers]
            return self.network.random_graphs({**self.official_config, self.network.layers: layers}, decoding)
        assert self.folder
        check_config(self.folder, self.allowed_config)
        return self.network.build_graphs(self.folder, decoding, fingerprint=weights_fingerprint(self.folder))
