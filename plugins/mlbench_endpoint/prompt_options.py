"""What can be set on the workload ``prompts``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from mlbench import NAMES_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """What can be set on the workload ``prompts``."""

    file: Annotated[str, NAMES_FILE] = ""
    """Prompts to send as they are, in UTF-8: a line each, or with the ending ``.jsonl`` a JSON object each, with
    ``prompt`` and perhaps ``max_tokens``. Empty: prompts are generated."""
    tokens_in: str = "512"
    """The length of generated prompts in tokens: ``512``, ``uniform:128:1024`` or ``normal:512:64``."""
    tokens_out: str = "128"
    """How many tokens an answer may have, in the same forms."""
    count: Annotated[int, Ge(1), Le(1_000_000)] = 1000
    """How many prompts are generated."""
    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """The seed of the generator."""
    tokens_per_word: Annotated[float, Gt(0), Le(100)] = 1.0
    """How many tokens the server makes of a word; ``mlbench bench-endpoint`` asks it."""
    template_tokens: Annotated[int, Ge(0), Le(1_000_000)] = 0
    """How many tokens the server adds to each prompt, for a chat's template; ``mlbench bench-endpoint`` asks it."""
