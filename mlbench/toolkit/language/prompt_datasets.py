"""Data sets of prompts that are token ids already."""

from __future__ import annotations

from collections.abc import Sequence

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.generation import Prompt
from mlbench.errors import DataError

RANDOM_SEED = 0


class StoredPrompts(Dataset):
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
        self._prompts = prompts
        self.count = self.performance_count = len(prompts)
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        """A hash of the data."""
        return self._fingerprint

    def load(self, indices: Sequence[int]) -> None:
        """Do nothing: token ids take little."""

    def unload(self, indices: Sequence[int]) -> None:
        """Do nothing."""

    def sample(self, index: int) -> Prompt:
        """Return a prompt."""
        return self._prompts[index]


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
