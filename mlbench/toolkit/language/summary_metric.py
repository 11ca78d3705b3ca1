"""ROUGE and length of summaries of news, as two official scripts compute them.

Source: MLPerf Inference v4.1, language/gpt-j/evaluation.py, and v5.1, language/llama3.1-8b/evaluation.py: the same but
for the model's name. Both decode with blanks tidied, as the models' tokenizers say or transformers did by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlbench.contracts.metric import LoggedReply
from mlbench.toolkit.language.rouge import text_scores
from mlbench.toolkit.language.token_metric import TokenMetric
from mlbench.toolkit.language.token_replies import decode_answers


class SummaryMetric(TokenMetric):
    """Scores ROUGE in percent, by the names of `text_scores`, ``GEN_LEN`` in characters and ``gen_num``.

    The references are the highlights of each article.
    """

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the articles that were answered.

        Raises:
            InvalidRunError: a reply is not a list of token ids, or to an unknown sample; or there is none.
        """
        tokens = self.tokens(replies)
        summaries = decode_answers(list(tokens.values()), self.tokenizer, tidies_blanks=True)
        highlights = [self.references[index] for index in tokens]
        return {**text_scores(summaries, highlights, self.sentences), "gen_num": len(summaries)}
