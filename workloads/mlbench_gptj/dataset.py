"""CNN/DailyMail as prompts, with the highlights that summaries are compared to; or random prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Dataset, Prompt
from mlbench.toolkit import DATA_BYTES, read_bytes
from mlbench.toolkit.language import RandomPrompts, check_count, read_table
from mlbench_gptj.prompts import LONGEST_PROMPT, prompt_text, prompt_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

OFFICIAL_ARTICLES = 13368


class Articles(Dataset):
    """An article is a sample; it is tokenised when it is loaded, which the rules leave untimed."""

    def __init__(self, data: Path, tokenizer: Tokenizer, *, count: int | None = None) -> None:
        """Read the articles.

        Args:
            data: a JSON list of objects with instruction, input and output, as cnn_eval.json.
            tokenizer: of the model.
            count: how many articles there must be; None for any number.

        Raises:
            DataError: the file is missing, corrupt or of another format, or holds another number of articles.
        """
        table = read_table(data, texts=("instruction", "input", "output"))
        check_count(len(table.texts["output"]), count)
        self.references: Sequence[str] = table.texts["output"]
        self._texts = list(map(prompt_text, table.texts["instruction"], table.texts["input"]))
        self._tokenizer = tokenizer
        self._loaded: dict[int, Prompt] = {}
        self.count = self.performance_count = len(self.references)
        content = read_bytes(data, what="table", limit_bytes=DATA_BYTES)
        self._fingerprint = hashlib.sha256(content + tokenizer.to_str().encode()).hexdigest()

    @property
    def fingerprint(self) -> str:
        """A hash of articles, highlights and tokenizer."""
        return self._fingerprint

    def load(self, indices: Sequence[int]) -> None:
        """Tokenise these prompts."""
        for index in indices:
            ids = prompt_tokens(self._texts[index], self._tokenizer)
            self._loaded[index] = Prompt(tokens=np.array(ids, np.int64))

    def unload(self, indices: Sequence[int]) -> None:
        """Free these prompts."""
        for index in indices:
            self._loaded.pop(index, None)

    def sample(self, index: int) -> Prompt:
        """Return a loaded prompt."""
        return self._loaded[index]


def random_articles(*, vocabulary: int) -> RandomPrompts:
    """Return as many random prompts as there are official articles."""
    return RandomPrompts(
        count=OFFICIAL_ARTICLES, median=800, shortest=80, longest=LONGEST_PROMPT, vocabulary=vocabulary
    )
