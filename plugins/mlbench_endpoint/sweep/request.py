"""The request for a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench_endpoint.loads.load import Load
from mlbench_endpoint.loads.prompt_options import PromptOptions
from mlbench_endpoint.options import EndpointOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """The user's request; see the options of the command."""

    backend: EndpointOptions
    prompts: PromptOptions
    loads: Sequence[Load]
    """The least first; of a search for goodput the one that shows a rate to begin with."""
    arrival: str
    """How requests arrive at the rates of a search; empty: at random."""
    duration_s: int
    """Least duration of a load."""
    requests: int
    repeats: int
    tag: str
    results: Path
    folder: Path
    """For the suite file and the curve."""
    resume: bool
    same_answers: int | None
    """Number of prompts whose answers alone those under load are compared with."""
    max_different: float | None
    good_share: float | None
    """Share of requests within the limits for which a rate is searched; None: no search."""
    is_wide: bool
    as_json: bool
