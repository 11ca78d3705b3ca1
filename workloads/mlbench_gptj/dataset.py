"""CNN/DailyMail as prompts, with the highlights that summaries are compared to; or random prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mlbench import Prompt
from mlbench.toolkit import DATA_BYTES, LoadedSamples, read_bytes
from mlbench.toolkit.language import RandomPrompts, check_count, read_table
from mlbench_gptj.prompts import LONGEST_PROMPT, prompt_text, prompt_tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

OFFICIAL_ARTICLES = 13368


class Articles(LoadedSamples[Prompt]):
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
        content = read_bytes(data, what="table", limit_bytes=DATA_BYTES)
        fingerprint = hashlib.sha256(content + tokenizer.to_str().encode()).hexdigest()
        super().__init__(count=len(self.references), fingerprint=fingerprint)

    def make(self, indices: Sequence[int]) -> list[Prompt]:
        """Tokenise these prompts."""
        ids = (prompt_tokens(self._texts[index], self._tokenizer) for index in indices)
        return [Prompt(tokens=np.array(each, np.int64)) for each in ids]


def random_articles(*, vocabulary: int) -> RandomPrompts:
    """Return as many random prompts as there are official articles."""
    return RandomPrompts(
        count=OFFICIAL_ARTICLES, median=800, shortest=80, longest=LONGEST_PROMPT, vocabulary=vocabulary
    )
