"""Data sets whose prompts are token ids already."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from mlbench.contracts.generation import Prompt
from mlbench.errors import DataError
from mlbench.system.documents import DATA_BYTES, read_bytes
from mlbench.toolkit.datasets import StoredSamples
from mlbench.toolkit.language.tables import read_table

RANDOM_SEED = 0


class StoredPrompts(StoredSamples[Prompt]):
    """Prompts that all stay in memory; each sample is one."""

    def __init__(self, prompts: Sequence[Prompt], *, longest: int, count: int | None, fingerprint: str) -> None:
        """Store the prompts.

        Args:
            prompts: in the order of the file.
            longest: tokens that a prompt may have.
            count: how many there must be; None for any number.
            fingerprint: a hash of the data.

        Raises:
            DataError: a prompt is longer, or their number differs.
        """
        check_count(len(prompts), count)
        for index, prompt in enumerate(prompts):
            if len(prompt.tokens) > longest:
                raise DataError(f"the prompt of sample {index} has {len(prompt.tokens)} tokens, more than {longest}.")
        super().__init__(prompts, fingerprint)


class AnsweredPrompts(StoredPrompts):
    """Rows of a table that has prompts as tokens in ``tok_input``, and in ``output`` the texts of right answers."""

    most_tokens: ClassVar[int]
    """Tokens that an official prompt may have."""

    def __init__(self, data: Path, *, longest: int | None = None, count: int | None = None) -> None:
        """Read the prompts and the answers.

        Args:
            data: the table, as a pickle or as JSON; no other column is read.
            longest: tokens that a prompt may have; None: those of an official one.
            count: how many rows there must be; None for any number.

        Raises:
            DataError: the file is missing, corrupt or of another format, holds another number of rows, or a prompt is
                empty or too long.
        """
        table = read_table(data, texts=("output",), tokens=("tok_input",))
        prompts = [Prompt(tokens=tokens) for tokens in table.tokens["tok_input"]]
        fingerprint = hashlib.sha256(read_bytes(data, what="table", limit_bytes=DATA_BYTES)).hexdigest()
        super().__init__(prompts, longest=longest or self.most_tokens, count=count, fingerprint=fingerprint)
        self.references: Sequence[str] = table.texts["output"]


class RandomPrompts(StoredPrompts):
    """Seeded random token ids of mixed lengths, for random weights; nothing is read from disk.

    Lengths are log-normal with a spread of 0.6, cut to the range: long tails as of written text, not the lengths of any
    official data set.
    """

    def __init__(self, *, count: int, median: int, shortest: int, longest: int, vocabulary: int) -> None:
        """Draw the prompts.

        Args:
            count: how many.
            median: tokens of the middle one.
            shortest: tokens at least.
            longest: tokens at most.
            vocabulary: how many token ids there are; the first hundred, where special ones are, are left out.
        """
        import numpy as np

        rng = np.random.default_rng(RANDOM_SEED)
        lengths = np.clip(rng.lognormal(np.log(median), 0.6, count).round(), shortest, longest).astype(int)
        prompts = [Prompt(tokens=rng.integers(100, vocabulary, length)) for length in lengths]
        name = f"lognormal-{median}-{shortest}-{longest}-vocabulary{vocabulary}-seed{RANDOM_SEED}-{count}"
        super().__init__(prompts, longest=longest, count=count, fingerprint=name)


def check_count(found: int, wanted: int | None) -> None:
    """Raise `DataError` for another number of samples than the official one."""
    if wanted is not None and found != wanted:
        raise DataError(f"the data has {found} samples, the official data set {wanted}.")
