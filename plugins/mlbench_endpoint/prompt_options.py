"""Options of the workload ``prompts``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt

from mlbench import NAMES_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Options of the workload ``prompts``."""

    file: Annotated[str, NAMES_FILE] = ""
    """File of prompts to send unchanged, in UTF-8: one per line, or in a ``.jsonl`` file one JSON object each, with
    ``prompt`` and optionally ``max_tokens``. Empty: prompts are generated."""
    tokens_in: str = "512"
    """Length of generated prompts in tokens: ``512``, ``uniform:128:1024`` or ``normal:512:64``."""
    tokens_out: str = "128"
    """Most tokens of an answer, in the same forms."""
    count: Annotated[int, Ge(1), Le(1_000_000)] = 1000
    """Number of generated prompts."""
    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the generator."""
    tokens_per_word: Annotated[float, Gt(0), Le(100)] = 1.0
    """Tokens per word by the server's count; ``mlbench bench-endpoint`` measures it."""
    template_tokens: Annotated[int, Ge(0), Le(1_000_000)] = 0
    """Tokens that the server adds to each prompt for a chat template; ``mlbench bench-endpoint`` measures it."""
