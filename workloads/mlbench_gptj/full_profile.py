"""The official files of the full profile, each verified as far as possible.

Source of the numbers: MLPerf Inference v4.1, language/gpt-j. `mlbench fetch` verifies by published checksums.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench import Dataset, UsageError, Weights
from mlbench.toolkit.language import LanguageFilesProfile, TokenProgram, read_tokenizer
from mlbench_gptj.dataset import OFFICIAL_ARTICLES, Articles, random_articles
from mlbench_gptj.graphs import NETWORK, OFFICIAL_CONFIG
from mlbench_gptj.program import summarising

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from mlbench_gptj.workload import GptJOptions

END = "<|endoftext|>"

VOCABULARIES = (50400, 50401)
"""GPT-J's, which has tokens that nothing uses; with a padding token that the fine-tuning added."""
TOKENIZER_SIZES = (50257, *VOCABULARIES)
"""GPT-2's, which GPT-J reads with; and those."""

_DECIDES = ("n_positions", "n_embd", "n_layer", "n_head", "rotary_dim", "bos_token_id", "eos_token_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialFiles:
    """Sizes and checksums of the official files; ``config.json`` has the rest."""

    articles: int


@dataclass(frozen=True, slots=True)
class FullProfile(LanguageFilesProfile[OfficialFiles]):
    """GPT-J 6B, fine-tuned to summarise, with the files a user names."""

    workload = "gptj"
    network = NETWORK
    official = OfficialFiles(articles=OFFICIAL_ARTICLES)
    official_config = OFFICIAL_CONFIG

    options: GptJOptions
    weights: Weights

    @property
    def allowed_config(self) -> Mapping[str, Collection[object]]:
        """Configuration of the model; the size of the vocabulary depends on whether a padding token was added."""
        sizes = (self.config["vocab_size"],) if self.options.smaller else VOCABULARIES
        return {"vocab_size": sizes, **{name: (self.config[name],) for name in _DECIDES}}

    def check(self) -> None:
        """Raise `UsageError` for options that are missing or not used."""
        LanguageFilesProfile.check(self)
        options = self.options
        if options.tokenizer and not options.data:
            raise UsageError(
                "gptj has a tokenizer, but no articles to read.", hint="Give them with --set workload.data=PATH."
            )
        if self.weights is Weights.RANDOM and options.data and not options.tokenizer:
            raise UsageError(
                "gptj has no tokenizer, which it needs to read articles.",
                hint="Give its folder with --set workload.tokenizer=PATH.",
            )

    @property
    def program(self) -> TokenProgram:
        """Rules for generating summaries."""
        return summarising(end_token=self.config["eos_token_id"], positions=self.config["n_positions"])

    def dataset(self) -> Dataset:
        """Open the official articles; where none are given, random prompts."""
        if self.options.data is None:
            return random_articles(vocabulary=self.config["vocab_size"])
        return Articles(Path(self.options.data), self.tokenizer(), count=self.files.articles)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer from its own folder, or from that of the weights."""
        folder = self.options.tokenizer or self.options.weights
        assert folder
        config = self.config
        sizes = range(1, config["vocab_size"] + 1) if self.options.smaller else TOKENIZER_SIZES
        return read_tokenizer(Path(folder), sizes=sizes, end=END, end_id=config["eos_token_id"])
