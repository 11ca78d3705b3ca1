"""ROUGE and length of summaries, as the official script computes them.

Source: MLPerf Inference v4.1, language/gpt-j/evaluation.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlbench import LoggedReply, Target
from mlbench.toolkit import share_targets
from mlbench.toolkit.language import ROUGE_SCORES, TokenMetric, decode_answers, text_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What the fp32 model reaches."""

    rouge1: float
    rouge2: float
    rougeL: float
    gen_len: float
    """Characters of all summaries."""

    def targets(self, *, most: float | None = None) -> tuple[Target, ...]:
        """Return the targets of both variants.

        Args:
            most: share of the reference that the length must not exceed; the official rules have no such limit.
        """
        shares = {"99": 0.99, "99.9": 0.999}
        return (
            *share_targets("rouge1", self.rouge1, shares),
            *share_targets("rouge2", self.rouge2, shares),
            *share_targets("rougeL", self.rougeL, shares),
            *share_targets("gen_len", self.gen_len, {"99": 0.9, "99.9": 0.9}, upper_share=most),
        )


OFFICIAL = Reference(rouge1=42.9865, rouge2=20.1235, rougeL=29.9881, gen_len=4016878)
"""Source: submission_checker.py."""


class SummaryRouge(TokenMetric):
    """Scores ``rouge1``, ``rouge2``, ``rougeL``, ``rougeLsum`` in percent, ``gen_len`` in characters and ``gen_num``.

    Without NLTK's sentence data ``rougeLsum`` is missing. The references are the highlights of each article.
    """

    printed = (*ROUGE_SCORES, "gen_len", "gen_num")

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the articles that were answered.

        Raises:
            InvalidRunError: a reply is no list of token ids, or to an unknown sample; or there is none.
        """
        tokens = self.tokens(replies)
        summaries = decode_answers(list(tokens.values()), self.tokenizer, tidies_blanks=True)
        highlights = [self.references[index] for index in tokens]
        return {**text_scores(summaries, highlights, self.sentences), "gen_num": len(summaries)}
