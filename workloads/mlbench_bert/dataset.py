"""SQuAD v1.1 as the network reads it, or random tokens of the same shape."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from mlbench import DataError
from mlbench.toolkit import DATA_BYTES, StoredSamples, read_bytes, read_text
from mlbench_bert.squad import TokenPair, Vocabulary, Windows, read_features, read_questions

OFFICIAL_WINDOWS = 10833
RANDOM_SEED = 0


class SquadWindows(StoredSamples[TokenPair]):
    """Every window of every question is a sample; all are tokenised at once, which the rules leave untimed."""

    def __init__(self, data: Path, vocabulary: Path, *, vocabulary_size: int, windows: Windows, count: int) -> None:
        """Read and tokenise.

        Args:
            data: a SQuAD v1.1 file.
            vocabulary: the model's vocab.txt.
            vocabulary_size: how many tokens it must have.
            windows: windows of passages.
            count: how many windows there must be: another tokenizer would give another number.

        Raises:
            DataError: a file is missing, corrupt or of another format, or the number of windows differs.
        """
        self.vocabulary = Vocabulary.read(vocabulary, size=vocabulary_size)
        self.questions = read_questions(data)
        self.features = read_features(self.questions, self.vocabulary, windows)
        if len(self.features) != count:
            raise DataError(
                f"{data} gives {len(self.features)} windows, not {count}.",
                hint="Either the file or the installed tokenizers library differs from the official one.",
            )
        self.windows = windows
        content = read_bytes(data, what="SQuAD file", limit_bytes=DATA_BYTES)
        fingerprint = hashlib.sha256(content + read_bytes(vocabulary, what="vocabulary")).hexdigest()
        super().__init__([feature.tokens for feature in self.features], fingerprint)


class RandomWindows(StoredSamples[TokenPair]):
    """Seeded random tokens, 10,833 samples of mixed lengths; nothing is read from disk.

    Lengths are log-normal around 160 tokens, cut to 40 .. 384, questions around 13 tokens: about what SQuAD's windows
    are, so that batching and padding cost about what they cost on the official data.
    """

    def __init__(self) -> None:
        rng = np.random.default_rng(RANDOM_SEED)
        lengths = np.clip(rng.lognormal(np.log(160), 0.4, OFFICIAL_WINDOWS).round(), 40, 384).astype(int)
        questions = np.clip(rng.normal(13, 4, OFFICIAL_WINDOWS).round(), 4, 30).astype(int)
        samples = [
            TokenPair(rng.integers(1000, 30522, length), (np.arange(length) > question).astype(np.int64))
            for length, question in zip(lengths, questions, strict=True)
        ]
        super().__init__(samples, f"lognormal-160-seed{RANDOM_SEED}-{OFFICIAL_WINDOWS}")


def calibration_samples(chosen: Path, data: SquadWindows) -> list[TokenPair]:
    """Return the windows a calibration list names: by their indices, or by the ids of their questions; one to a line.

    Raises:
        DataError: the list is missing or empty, or a line is neither an index nor an id.

    Source: MLPerf Inference v4.1, calibration/SQuAD-v1.1: there are both kinds of list.
    """
    lines = read_text(chosen, what="calibration list").split()
    if not lines:
        raise DataError(f"calibration list is empty: {chosen}.")
    named: dict[str, list[TokenPair]] = {str(index): [feature.tokens] for index, feature in enumerate(data.features)}
    for feature in data.features:
        named.setdefault(data.questions[feature.question].id, []).append(feature.tokens)
    if unknown := next((line for line in lines if line not in named), None):
        raise DataError(f"{chosen} names neither a window nor a question of the data: {unknown[:80]!r}.")
    return [tokens for line in lines for tokens in named[line]]
