"""CNN/DailyMail as prompts, with the highlights that summaries are compared to; or random prompts."""

from __future__ import annotations

from mlbench.toolkit.language import AnsweredPrompts, RandomPrompts
from mlbench_llama3_1_8b.prompts import LONGEST_PROMPT

OFFICIAL_ARTICLES = 13368
EDGE_ARTICLES = 5000
"""Those of the edge variant, which are among the others."""


class TokenisedArticles(AnsweredPrompts):
    """A row of the official table is a sample: an article's prompt, and its highlights."""

    most_tokens = LONGEST_PROMPT


def random_articles(*, count: int, vocabulary: int) -> RandomPrompts:
    """Return random prompts, as many as are asked for and about as long as the official ones."""
    return RandomPrompts(count=count, median=780, shortest=80, longest=2500, vocabulary=vocabulary)
