"""The official files of the full profile, each held against what is known of it.

Source of the numbers: MLPerf Inference v4.1, language/mixtral-8x7b, and MLCommons' automation scripts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dataset, Graph, Target, Weights
from mlbench.toolkit import verify_file
from mlbench.toolkit.language import TokenProgram, check_config, check_options, read_tokenizer, weights_fingerprint
from mlbench_mixtral_8x7b.accuracy import OFFICIAL
from mlbench_mixtral_8x7b.dataset import LONGEST_PROMPT, OFFICIAL_SAMPLES, MixedPrompts, random_mixture
from mlbench_mixtral_8x7b.graphs import NETWORK, OFFICIAL_CONFIG
from mlbench_mixtral_8x7b.program import END_TOKEN, MAX_NEW_TOKENS, answering

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench_mixtral_8x7b.workload import MixtralOptions

END = "</s>"
DATA_MD5 = "78823c13e0e73e518872105c4b09628b"
"""2024.06.06_mixtral_15k_v4.pkl."""


@dataclass(frozen=True, slots=True)
class FullProfile:
    """Mixtral 8x7B Instruct with the files a user names."""

    options: MixtralOptions

    def check(self, weights: Weights) -> None:
        """Raise `UsageError` for options that are missing or would not be read."""
        check_options(
            "mixtral-8x7b",
            weights,
            data=self.options.data,
            weights=self.options.weights,
            layers=self.options.layers,
            most_layers=OFFICIAL_CONFIG["num_hidden_layers"],
        )

    @property
    def folder(self) -> Path | None:
        """The Hugging Face folder; None for random weights."""
        return Path(self.options.weights) if self.options.weights else None

    @property
    def targets(self) -> tuple[Target, ...]:
        """The official ones."""
        return OFFICIAL.targets()

    @property
    def program(self) -> TokenProgram:
        """How answers are generated."""
        return answering(positions=LONGEST_PROMPT + MAX_NEW_TOKENS)

    def dataset(self) -> Dataset:
        """Open the official table; where none is given, random prompts."""
        if self.options.data is None:
            return random_mixture(vocabulary=OFFICIAL_CONFIG["vocab_size"])
        data = Path(self.options.data)
        if data.suffix != ".json":
            verify_file(data, md5=DATA_MD5, what="data set")
        return MixedPrompts(data, count=OFFICIAL_SAMPLES)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that comes with the weights."""
        assert self.folder
        return read_tokenizer(self.folder, sizes=(OFFICIAL_CONFIG["vocab_size"],), end=END, end_id=END_TOKEN)

    def graphs(self, weights: Weights) -> Mapping[str, Graph]:
        """Return ``prefill`` and ``decode``, with the user's weights or random ones."""
        decoding = self.program.decoding
        if weights is Weights.RANDOM:
            layers = self.options.layers or OFFICIAL_CONFIG["num_hidden_layers"]
            return NETWORK.random_graphs({**OFFICIAL_CONFIG, "num_hidden_layers": layers}, decoding)
        assert self.folder
        check_config(self.folder, {name: (value,) for name, value in OFFICIAL_CONFIG.items()})
        return NETWORK.build_graphs(self.folder, decoding, fingerprint=weights_fingerprint(self.folder))
