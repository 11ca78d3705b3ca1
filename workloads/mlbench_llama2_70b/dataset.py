"""OpenOrca as prompts, with the answers that replies are compared to; or random prompts."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from mlbench import Prompt
from mlbench.toolkit import DATA_BYTES, read_bytes
from mlbench.toolkit.language import RandomPrompts, StoredPrompts, read_table
from mlbench_llama2_70b.prompts import LONGEST_PROMPT

OFFICIAL_CONVERSATIONS = 24576


class Conversations(StoredPrompts):
    """A row of the official table is a sample."""

    def __init__(self, data: Path, *, longest: int = LONGEST_PROMPT, count: int | None = None) -> None:
        """Read the prompts and the answers.

        Args:
            data: the official table, as a pickle or as JSON; of its columns ``output`` and ``tok_input`` are read.
            longest: tokens that a prompt may have.
            count: how many rows there must be; None for any number.

        Raises:
            DataError: the file is missing, corrupt or of another format, holds another number of rows, or a prompt is
                empty or too long.
        """
        table = read_table(data, texts=("output",), tokens=("tok_input",))
        prompts = [Prompt(tokens=tokens) for tokens in table.tokens["tok_input"]]
        fingerprint = hashlib.sha256(read_bytes(data, what="table", limit_bytes=DATA_BYTES)).hexdigest()
        super().__init__(prompts, longest=longest, count=count, fingerprint=fingerprint)
        self.references: Sequence[str] = table.texts["output"]


def random_conversations(*, vocabulary: int) -> RandomPrompts:
    """Return as many random prompts as the official table has rows."""
    return RandomPrompts(
        count=OFFICIAL_CONVERSATIONS, median=160, shortest=20, longest=LONGEST_PROMPT, vocabulary=vocabulary
    )
