"""OpenOrca as prompts, with the answers that replies are compared to; or random prompts."""

from __future__ import annotations

from mlbench.toolkit.language import AnsweredPrompts, RandomPrompts
from mlbench_llama2_70b.prompts import LONGEST_PROMPT

OFFICIAL_CONVERSATIONS = 24576


class Conversations(AnsweredPrompts):
    """A row of the official table is a sample."""

    most_tokens = LONGEST_PROMPT


def random_conversations(*, vocabulary: int) -> RandomPrompts:
    """Return as many random prompts as the official table has rows."""
    return RandomPrompts(
        count=OFFICIAL_CONVERSATIONS, median=160, shortest=20, longest=LONGEST_PROMPT, vocabulary=vocabulary
    )
