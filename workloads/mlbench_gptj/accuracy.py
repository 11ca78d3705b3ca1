"""ROUGE and length of summaries, as the official script computes them.

Source: MLPerf Inference v4.1, language/gpt-j/evaluation.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlbench import LoggedReply
from mlbench.toolkit.language import ROUGE_SCORES, TokenMetric, decode_answers, text_scores


class SummaryRouge(TokenMetric):
    """Scores ``ROUGE1``, ``ROUGE2``, ``ROUGEL``, ``rougeLsum`` in percent, ``GEN_LEN`` in characters and ``gen_num``.

    Without NLTK's sentence data ``rougeLsum`` is missing. The references are the highlights of each article.
    """

    printed = (*ROUGE_SCORES, "GEN_LEN", "gen_num")

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the articles that were answered.

        Raises:
            InvalidRunError: a reply is not a list of token ids, or to an unknown sample; or there is none.
        """
        tokens = self.tokens(replies)
        summaries = decode_answers(list(tokens.values()), self.tokenizer, tidies_blanks=True)
        highlights = [self.references[index] for index in tokens]
        return {**text_scores(summaries, highlights, self.sentences), "gen_num": len(summaries)}
