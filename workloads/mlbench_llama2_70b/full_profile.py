"""The official files of the full profile, each verified as far as possible.

Source of the numbers: MLPerf Inference v4.1, language/llama2-70b. `mlbench fetch` verifies by published checksums.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dataset, Weights
from mlbench.toolkit.language import LanguageFilesProfile, TokenProgram, read_tokenizer
from mlbench_llama2_70b.dataset import OFFICIAL_CONVERSATIONS, Conversations, random_conversations
from mlbench_llama2_70b.graphs import NETWORK, OFFICIAL_CONFIG
from mlbench_llama2_70b.program import END_TOKEN, MAX_NEW_TOKENS, conversing
from mlbench_llama2_70b.prompts import LONGEST_PROMPT

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench_llama2_70b.workload import Llama2Options

END = "</s>"


@dataclass(frozen=True, slots=True)
class FullProfile(LanguageFilesProfile):
    """Llama 2 70B Chat with the files a user names."""

    workload = "llama2-70b"
    network = NETWORK
    config = OFFICIAL_CONFIG

    options: Llama2Options
    weights: Weights

    @property
    def program(self) -> TokenProgram:
        """How answers are generated."""
        return conversing(positions=LONGEST_PROMPT + MAX_NEW_TOKENS)

    def dataset(self) -> Dataset:
        """Open the official table; where none is given, random prompts."""
        if self.options.data is None:
            return random_conversations(vocabulary=self.config["vocab_size"])
        return Conversations(Path(self.options.data), longest=LONGEST_PROMPT, count=OFFICIAL_CONVERSATIONS)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that comes with the weights."""
        assert self.folder
        return read_tokenizer(self.folder, sizes=(self.config["vocab_size"],), end=END, end_id=END_TOKEN)
