"""What the metrics of the language workloads have in common: replies of tokens, and a line of plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from mlbench.contracts.metric import LoggedReply, Metric, Target
from mlbench.toolkit.language.rouge import Sentences
from mlbench.toolkit.language.token_replies import logged_tokens, tokens_agree

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer


class TokenMetric(Metric):
    """Scores replies of tokens; a subclass says how."""

    printed: ClassVar[tuple[str, ...]]
    """The scores that the official script prints, in its order."""

    def __init__(
        self,
        references: Sequence[str],
        tokenizer: Tokenizer,
        *,
        targets: tuple[Target, ...],
        dtype: str = "int64",
        sentences: Sentences | None = None,
    ) -> None:
        """Store what to compare with.

        Args:
            references: what the answer to each sample is compared with.
            tokenizer: turns replies back into text.
            targets: what the scores must reach.
            dtype: how a token is stored: int64 or int32.
            sentences: splits a text into sentences; None for NLTK's splitter, where its data is installed.
        """
        self.targets = targets
        self.references = references
        self.tokenizer = tokenizer
        self.sentences = sentences
        self._dtype = dtype

    def tokens(self, replies: Sequence[LoggedReply]) -> Mapping[int, np.ndarray]:
        """Return the tokens of the first reply to each sample; see `logged_tokens`."""
        return logged_tokens(replies, samples=len(self.references), dtype=self._dtype)

    def line(self, scores: Mapping[str, float]) -> str:
        """Return the printed scores, those that are there, as Python prints a dictionary of plain numbers."""
        return str({name: scores[name] for name in self.printed if name in scores})

    def agrees(self, reply: bytes, reference: bytes) -> bool:
        """Tell whether two answers share half their tokens; see `tokens_agree`."""
        return tokens_agree(reply, reference, dtype=self._dtype)
