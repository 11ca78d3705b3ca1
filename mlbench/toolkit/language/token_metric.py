"""Base class for metrics of language workloads: replies of tokens, and a line of plain numbers."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from mlbench.contracts.metric import LoggedReply, Metric, Target
from mlbench.contracts.workload import Profile
from mlbench.toolkit.language.rouge import NO_SENTENCES, Sentences, sentences_used, unsplit
from mlbench.toolkit.language.token_replies import read_logged_tokens, token_difference, token_limits

if TYPE_CHECKING:
    import numpy as np
    from tokenizers import Tokenizer


_PRINTED_NAMES = {
    "ROUGE1": "rouge1",
    "ROUGE2": "rouge2",
    "ROUGEL": "rougeL",
    "ROUGELSUM": "rougeLsum",
    "GEN_LEN": "gen_len",
    "TOKENS_PER_SAMPLE": "tokens_per_sample",
    "gsm8k_accuracy": "gsm8k",
    "mbxp_accuracy": "mbxp",
}
"""The official scripts' names of scores that differ from the submission checker's."""


class TokenMetric(Metric):
    """Scores replies of tokens; a subclass says how."""

    printed: ClassVar[tuple[str, ...]]
    """The scores that the official script prints, in its order; the names are the submission checker's."""
    of_sentences: ClassVar[tuple[str, ...]] = ("rougeLsum", "GEN_LEN")
    """Scores that depend on how a text is split; the first is missing where it is not."""

    def __init__(  # noqa: PLR0913 - what is compared with, and how replies are stored
        self,
        references: Sequence[str],
        tokenizer: Tokenizer,
        *,
        targets: tuple[Target, ...],
        dtype: str = "int64",
        sentences: Sentences | None = None,
        profile: Profile = Profile.FULL,
    ) -> None:
        """Store the references and limits.

        Args:
            references: what the answer to each sample is compared with.
            tokenizer: turns replies back into text.
            targets: limits of the scores.
            dtype: how a token is stored: int64 or int32.
            sentences: splits a text into sentences; None for NLTK's splitter, where its data is installed.
            profile: whose limits hold between two answers to a sample.
        """
        self.targets = targets
        self.references = references
        self.tokenizer = tokenizer
        self.sentences = sentences
        self._dtype = dtype
        self.reply_limits = token_limits(profile)

    def tokens(self, replies: Sequence[LoggedReply]) -> Mapping[int, np.ndarray]:
        """Return the tokens of the first reply to each sample; see `read_logged_tokens`."""
        return read_logged_tokens(replies, samples=len(self.references), dtype=self._dtype)

    def answer_tokens(self, index: int) -> Sequence[int]:
        """Return the tokens of a sample's right answer, whose perplexity is measured; empty: none is known."""
        ids: list[int] = self.tokenizer.encode(self.references[index], add_special_tokens=False).ids
        return ids

    def outputs(self, reply: LoggedReply) -> np.ndarray:
        """Return the tokens."""
        import numpy as np

        return np.frombuffer(reply.data, np.dtype(self._dtype).newbyteorder("<"))

    def computed_with(self) -> Mapping[str, str]:
        """Return the splitter of sentences, which is data of NLTK's, and its version."""
        used = sentences_used() if self.sentences is None else NO_SENTENCES if self.sentences is unsplit else ""
        return dict.fromkeys(self.of_sentences, used) if used else {}

    def as_computed(self, computed_with: Mapping[str, str], scores: Collection[str]) -> Self:
        """Return a metric without a splitter, where the earlier one had none; records did not always say so."""
        had_none = NO_SENTENCES in computed_with.values() or (not computed_with and self.of_sentences[0] not in scores)
        other = copy.copy(self)
        other.sentences = unsplit if had_none and self.sentences is None else self.sentences
        return other

    def line(self, scores: Mapping[str, float]) -> str:
        """Return the printed scores, those that are there, as Python prints a dictionary of plain numbers."""
        return str({_PRINTED_NAMES.get(name, name): scores[name] for name in self.printed if name in scores})

    def difference(self, reply: bytes, reference: bytes) -> float:
        """Return the difference of two answers; see `token_difference`."""
        return token_difference(reply, reference, dtype=self._dtype)
