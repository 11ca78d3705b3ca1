"""The official files of the full profile, each verified as far as possible.

Source of the numbers: MLPerf Inference v4.1, language/llama2-70b. `mlbench fetch` verifies by published checksums.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

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


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files; ``config.json`` has the rest."""

    conversations: int
    longest_prompt: Annotated[int, Ge(1)]
    """Tokens."""
    max_new_tokens: int


@dataclass(frozen=True, slots=True)
class FullProfile(LanguageFilesProfile[OfficialFiles]):
    """Llama 2 70B Chat with the files a user names."""

    workload = "llama2-70b"
    network = NETWORK
    official = OfficialFiles(
        conversations=OFFICIAL_CONVERSATIONS, longest_prompt=LONGEST_PROMPT, max_new_tokens=MAX_NEW_TOKENS
    )
    official_config = OFFICIAL_CONFIG

    options: Llama2Options
    weights: Weights

    @property
    def program(self) -> TokenProgram:
        """Rules for generating answers."""
        files = self.files
        positions = files.longest_prompt + files.max_new_tokens
        return conversing(positions=positions, max_new_tokens=files.max_new_tokens)

    def dataset(self) -> Dataset:
        """Open the official table; where none is given, random prompts."""
        if self.options.data is None:
            return random_conversations(vocabulary=self.config["vocab_size"])
        files = self.files
        return Conversations(Path(self.options.data), longest=files.longest_prompt, count=files.conversations)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that comes with the weights."""
        assert self.folder
        return read_tokenizer(self.folder, sizes=(self.config["vocab_size"],), end=END, end_id=END_TOKEN)
