"""The official files of the full profile, each verified as far as possible.

Source of the numbers: MLPerf Inference v5.1, language/llama3.1-8b. `mlbench fetch` verifies by published checksums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from annotated_types import Ge

from mlbench import DataError, Dataset, Weights
from mlbench.toolkit.language import LanguageFilesProfile, TokenProgram, check_sentences, read_tokenizer
from mlbench_llama3_1_8b.dataset import EDGE_ARTICLES, OFFICIAL_ARTICLES, TokenisedArticles, random_articles
from mlbench_llama3_1_8b.graphs import NETWORK, OFFICIAL_CONFIG
from mlbench_llama3_1_8b.program import MAX_NEW_TOKENS, summarising
from mlbench_llama3_1_8b.prompts import LONGEST_PROMPT

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench_llama3_1_8b.workload import Llama31Options

END = "<|eot_id|>"
"""Ends a turn; the last of the configuration's end tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes of the official files; ``config.json`` has the rest."""

    articles: int
    longest_prompt: Annotated[int, Ge(1)] = LONGEST_PROMPT
    """Tokens."""


@dataclass(frozen=True, slots=True)
class FullProfile(LanguageFilesProfile[OfficialFiles]):
    """Llama 3.1 8B Instruct with the files a user names."""

    workload = "llama3.1-8b"
    network = NETWORK
    official = OfficialFiles(articles=OFFICIAL_ARTICLES)
    official_config = OFFICIAL_CONFIG

    options: Llama31Options
    weights: Weights

    def check(self) -> None:
        """Raise `UsageError` for options that are missing or not used, or where no sentences can be found."""
        LanguageFilesProfile.check(self)
        if self.weights is Weights.TRAINED:
            check_sentences(self.workload)

    @property
    def program(self) -> TokenProgram:
        """Rules for generating summaries."""
        positions = self.files.longest_prompt + MAX_NEW_TOKENS
        return summarising(end_tokens=self.end_tokens, positions=positions)

    @property
    def end_tokens(self) -> Sequence[int]:
        """Tokens that end a text, a message and a turn.

        Raises:
            DataError: the ``config.json`` of a smaller set lists none.
        """
        found = self.config["eos_token_id"]
        if not isinstance(found, list) or not found or not all(type(each) is int for each in found):
            raise DataError(f"{self.folder}/config.json has eos_token_id = {found}, expected a list of tokens.")
        return found

    def dataset(self) -> Dataset:
        """Open the official table; where none is given, random prompts."""
        files = self.files
        if self.options.data is None:
            return random_articles(count=files.articles, vocabulary=self.config["vocab_size"])
        return TokenisedArticles(Path(self.options.data), longest=files.longest_prompt, count=files.articles)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that comes with the weights."""
        assert self.folder
        return read_tokenizer(self.folder, sizes=(self.config["vocab_size"],), end=END, end_id=self.end_tokens[-1])


@dataclass(frozen=True, slots=True)
class EdgeProfile(FullProfile):
    """The same model and 5,000 articles."""

    workload = "llama3.1-8b-edge"
    official = OfficialFiles(articles=EDGE_ARTICLES)
