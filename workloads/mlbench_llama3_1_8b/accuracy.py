"""ROUGE and length of summaries, as the official script computes them.

Source: MLPerf Inference v5.1, language/llama3.1-8b/evaluation.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlbench import LoggedReply
from mlbench.toolkit.language import SummaryMetric

ROUGE_OF_SENTENCES = "ROUGELSUM"
"""The checker of v5.1 has a target for it; that of v4.1 did not know it."""


class NewsRouge(SummaryMetric):
    """Scores ``ROUGE1``, ``ROUGE2``, ``ROUGEL``, ``ROUGELSUM`` in percent, ``GEN_LEN`` in characters and ``gen_num``.

    Without NLTK's sentence data ``ROUGELSUM`` is missing.
    """

    printed = ("ROUGE1", "ROUGE2", "ROUGEL", ROUGE_OF_SENTENCES, "GEN_LEN", "gen_num")
    of_sentences = (ROUGE_OF_SENTENCES, "GEN_LEN")

    def score(self, replies: Sequence[LoggedReply]) -> Mapping[str, float]:
        """Return the scores over the articles that were answered, by the checker's names; see `SummaryMetric`."""
        names = {"rougeLsum": ROUGE_OF_SENTENCES}
        return {names.get(name, name): score for name, score in super().score(replies).items()}
