"""ROUGE and length of answers, as the official script computes them.

Source: MLPerf Inference v4.1, language/llama2-70b/evaluate-accuracy.py.
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
    tokens_per_sample: float
    exact_match: float | None = None
    """Percent of the answers that are the right one, letter by letter; None where that is no target, as officially."""

    def targets(self) -> tuple[Target, ...]:
        """Return the targets of both variants."""
        shares = {"99": 0.99, "99.9": 0.999}
        targets = (
            *share_targets("rouge1", self.rouge1, shares),
            *share_targets("rouge2", self.rouge2, shares),
            *share_targets("rougeL", self.rougeL, shares),
            *share_targets("tokens_per_sample", self.tokens_per_sample, {"99": 0.9, "99.9": 0.9}, upper_share=1.1),
        )
        if self.exact_match is None:
            return targets
        return (*targets, *share_targets("exact_match", self.exact_match, {"97": 0.97}))


OFFICIAL = Reference(rouge1=44.4312, rouge2=22.0352, rougeL=28.6162, tokens_per_sample=294.45)
"""Source: submission_checker.py."""


class AnswerRouge(TokenMetric):
    """Scores ``rouge1``, ``rouge2``, ``rougeL``, ``rougeLsum`` and ``exact_match`` in percent, and lengths.

    Lengths are ``gen_len`` in characters, ``gen_num`` in answers, ``gen_tok_len`` in tokens, of all answers, and
    ``tokens_per_sample``. Without NLTK's sentence data ``rougeLsum`` is missing. ``exact_match`` is not official.
    """

    printed = (*ROUGE_SCORES, "gen_len", "gen_num", "gen_tok_len", "tokens_per_sample")

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the samples that were answered.

        Raises:
            InvalidRunError: a reply is no list of token ids, or to an unknown sample; or there is none.
        """
        tokens = self.tokens(replies)
        answers = decode_answers(list(tokens.values()), self.tokenizer)
        rights = [self.references[index] for index in tokens]
        gen_tok_len = sum(map(len, tokens.values()))
        exact = sum(answer.strip() == right.strip() for answer, right in zip(answers, rights, strict=True))
        return {
            **text_scores(answers, rights, self.sentences),
            "gen_num": len(answers),
            "gen_tok_len": gen_tok_len,
            "tokens_per_sample": round(gen_tok_len / len(answers), 1),
            "exact_match": 100 * exact / len(answers),
        }
