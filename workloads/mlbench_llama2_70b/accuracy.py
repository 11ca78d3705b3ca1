"""ROUGE and length of answers, as the official script computes them.

Source: MLPerf Inference v4.1, language/llama2-70b/evaluate-accuracy.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlbench import LoggedReply
from mlbench.toolkit.language import ROUGE_SCORES, TokenMetric, decode_answers, text_scores


class AnswerRouge(TokenMetric):
    """Scores ``ROUGE1``, ``ROUGE2``, ``ROUGEL``, ``rougeLsum`` and ``exact_match`` in percent, and lengths.

    Lengths are ``GEN_LEN`` in characters, ``gen_num`` in answers, ``gen_tok_len`` in tokens, of all answers, and
    ``TOKENS_PER_SAMPLE``. Without NLTK's sentence data ``rougeLsum`` is missing. ``exact_match`` is not official.
    """

    printed = (*ROUGE_SCORES, "GEN_LEN", "gen_num", "gen_tok_len", "TOKENS_PER_SAMPLE")

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the samples that were answered.

        Raises:
            InvalidRunError: a reply is not a list of token ids, or to an unknown sample; or there is none.
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
            "TOKENS_PER_SAMPLE": round(gen_tok_len / len(answers), 1),
            "exact_match": 100 * exact / len(answers),
        }
