"""ROUGE and length of summaries, as the official script computes them.

Source: MLPerf Inference v4.1, language/gpt-j/evaluation.py.
"""

from __future__ import annotations

from mlbench.toolkit.language import ROUGE_SCORES, SummaryMetric


class SummaryRouge(SummaryMetric):
    """Scores ``ROUGE1``, ``ROUGE2``, ``ROUGEL``, ``rougeLsum`` in percent, ``GEN_LEN`` in characters and ``gen_num``.

    Without NLTK's sentence data ``rougeLsum`` is missing.
    """

    printed = (*ROUGE_SCORES, "GEN_LEN", "gen_num")
