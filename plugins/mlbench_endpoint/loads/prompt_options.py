"""Options of the workload ``prompts``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, Lt

from mlbench import NAMES_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """Options of the workload ``prompts``."""

    file: Annotated[str, NAMES_FILE] = ""
    """File of prompts to send unchanged, in UTF-8: one per line, or in a ``.jsonl`` file one JSON object each, with
    ``prompt`` and optionally ``max_tokens``; or of sessions, with ``messages``, or in ShareGPT's form
    (``conversations``). Empty: prompts are generated."""
    trace: Annotated[str, NAMES_FILE] = ""
    """Trace of requests, with arrival times and lengths: Mooncake's JSON lines, Azure's or BurstGPT's CSV, or JSON
    lines with ``at_s``, ``tokens_out``, and ``prompt`` or ``tokens_in``. Empty: none."""
    speed: Annotated[float, Gt(0), Le(1_000_000)] = 1.0
    """Factor by which the requests of a trace follow each other faster."""
    arrival: str = ""
    """Arrival times of requests in the scenario Schedule: ``constant``, ``gamma:0.5`` (the shape, as in vLLM's
    burstiness) or ``ramp:1:20`` (requests per second, from the first to the last). Empty: the trace's."""
    rate_per_s: Annotated[float, Ge(0), Le(1_000_000)] = 0.0
    """Mean rate of ``constant`` and ``gamma``."""
    seconds: Annotated[float, Gt(0), Le(86_400)] = 30.0
    """Duration of these arrivals."""
    tokens_in: str = "512"
    """Length of generated prompts in tokens: ``512``, ``uniform:128:1024``, ``normal:512:64`` or
    ``hist:128=0.5,1024=0.3,4096=0.2`` (shares)."""
    tokens_out: str = "128"
    """Most tokens of an answer, in the same forms."""
    shared_prefix: str = ""
    """``0.5:1024``: half of the generated prompts begin with the same 1,024 tokens, in addition to their own. Empty:
    every prompt begins with new words, so that no prefix cache helps."""
    turns: Annotated[int, Ge(1), Le(1000)] = 1
    """Turns of generated sessions; 1: single requests."""
    think_ms: Annotated[int, Ge(0), Le(86_400_000)] = 0
    """Time between an answer and the next turn of a session."""
    history: Literal["answers", "given"] = "answers"
    """Answers in the history of a session: the server's own, or those of the file."""
    documents: Annotated[int, Ge(1), Le(10_000)] = 1
    """Documents of a request to a rerank endpoint (``backend.api=rerank``); for embeddings 1."""
    image: str = ""
    """``512x512``: images of this size with each generated prompt, with new pixels each time; empty: none."""
    images_per_request: Annotated[int, Ge(1), Le(64)] = 1
    """Number of these images."""
    count: Annotated[int, Ge(1), Le(1_000_000)] = 1000
    """Number of generated prompts; fewer of lengths at which they could have more than 300 million words."""
    seed: Annotated[int, Ge(0), Lt(2**63)] = 0
    """Seed of the generator."""
    tokens_per_word: Annotated[float, Gt(0), Le(100)] = 1.0
    """Tokens per word by the server's count; ``mlbench bench-endpoint`` measures it."""
    template_tokens: Annotated[int, Ge(0), Le(1_000_000)] = 0
    """Tokens that the server adds to each prompt for a chat template; ``mlbench bench-endpoint`` measures it."""
