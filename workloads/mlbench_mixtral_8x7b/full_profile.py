"""The official files of the full profile, each verified as far as possible.

Source of the numbers: MLPerf Inference v4.1, language/mixtral-8x7b, and MLCommons' automation scripts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dataset, Weights
from mlbench.toolkit import verify_file
from mlbench.toolkit.language import LanguageFilesProfile, TokenProgram, read_tokenizer
from mlbench_mixtral_8x7b.dataset import LONGEST_PROMPT, OFFICIAL_SAMPLES, MixedPrompts, random_mixture
from mlbench_mixtral_8x7b.graphs import NETWORK, OFFICIAL_CONFIG
from mlbench_mixtral_8x7b.program import END_TOKEN, MAX_NEW_TOKENS, answering

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench_mixtral_8x7b.workload import MixtralOptions

END = "</s>"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files; ``config.json`` has the rest."""

    samples: int
    longest_prompt: int
    """Tokens."""
    max_new_tokens: int
    data_md5: str
    """2024.06.06_mixtral_15k_v4.pkl."""


@dataclass(frozen=True, slots=True)
class FullProfile(LanguageFilesProfile[OfficialFiles]):
    """Mixtral 8x7B Instruct with the files a user names."""

    workload = "mixtral-8x7b"
    network = NETWORK
    official = OfficialFiles(
        samples=OFFICIAL_SAMPLES,
        longest_prompt=LONGEST_PROMPT,
        max_new_tokens=MAX_NEW_TOKENS,
        data_md5="78823c13e0e73e518872105c4b09628b",
    )
    official_config = OFFICIAL_CONFIG

    options: MixtralOptions
    weights: Weights

    @property
    def program(self) -> TokenProgram:
        """Rules for generating answers."""
        files = self.files
        positions = files.longest_prompt + files.max_new_tokens
        return answering(positions=positions, max_new_tokens=files.max_new_tokens)

    def dataset(self) -> Dataset:
        """Open the official table; where none is given, random prompts."""
        if self.options.data is None:
            return random_mixture(vocabulary=self.config["vocab_size"])
        data, files = Path(self.options.data), self.files
        if data.suffix != ".json":
            verify_file(data, md5=files.data_md5, what="data set")
        return MixedPrompts(data, longest=files.longest_prompt, count=files.samples)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that comes with the weights."""
        assert self.folder
        return read_tokenizer(self.folder, sizes=(self.config["vocab_size"],), end=END, end_id=END_TOKEN)
