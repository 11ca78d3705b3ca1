"""The rules of a workload of your own: its requirements for a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from mlbench.contracts.load_pattern import LOAD_PATTERNS, Arrivals

if TYPE_CHECKING:
    from mlbench.contracts.metric import Target

OFFICIAL_MIN_DURATION_MS = 600_000
"""Source: MLPerf Inference v4.1 rules, "Scenarios"."""

DEFAULT_ROUND = "v4.1"
"""The round of MLPerf Inference whose rules hold where none is named."""

CHECKED = ("timed_answers", "no_caching")
"""Rules that detect answers that were not computed; a run counts as checked only if all of them were applied."""


class Tokens(StrEnum):
    """How tokens are counted: not at all, by a fixed number per sample, or as reported with replies."""

    NONE = "none"
    INFERRED = "inferred"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Requirements of a workload of your own. The tiers smoke and dev shorten durations and counts as usual."""

    scenarios: tuple[str, ...]
    """Defined scenarios, out of LoadGen's four: ``("SingleStream", "Offline")``."""
    targets: tuple[Target, ...]
    """Targets of the full profile's scores; mini must reach the same shares of its own reference."""
    min_duration_ms: int = OFFICIAL_MIN_DURATION_MS
    """Shortest duration of a valid run."""
    min_query_count: Mapping[str, int] = field(default_factory=dict)
    """Fewest queries of a valid run, by scenario; without an entry the official number. Early stopping may need more:
    64 in SingleStream, 662 in MultiStream, 459 in Server."""
    offline_min_samples: int | None = None
    """Fewest samples of a valid Offline run; None: each loaded sample once."""
    performance_sample_count: int | None = None
    """Number of samples kept loaded while measuring; None: the dataset's number."""
    server_latency_ms: int | None = None
    """Limit of the 99th percentile of the latency in Server."""
    ttft_ms: int | None = None
    """Limit of the time to the first token in Server, for workloads with measured tokens; replaces
    ``server_latency_ms``."""
    tpot_ms: int | None = None
    """Limit of the time per output token, likewise."""
    tokens: Tokens = Tokens.NONE
    tokens_per_sample: int | None = None
    """Number of tokens per sample, where it is fixed."""
    equal_issue: bool = False
    """Whether every loaded sample must be sent equally often."""

    def __post_init__(self) -> None:
        if problem := self._wrong_scenario() or self._wrong_number() or self._missing_limit():
            raise ValueError(f"Rules: {problem}")

    def _wrong_scenario(self) -> str:
        if not self.scenarios or isinstance(self.scenarios, str):
            return f"scenarios is {self.scenarios!r}; name some of LoadGen's: {', '.join(LOAD_PATTERNS)}"
        unknown = [each for each in (*self.scenarios, *self.min_query_count) if each not in LOAD_PATTERNS]
        return f"{unknown[0]!r} is not one of LoadGen's scenarios: {', '.join(LOAD_PATTERNS)}" if unknown else ""

    def _wrong_number(self) -> str:
        numbers = {
            **{name: getattr(self, name) for name in _COUNTS},
            **{f"min_query_count[{name!r}]": count for name, count in self.min_query_count.items()},
        }
        wrong = [name for name, each in numbers.items() if each is not None and (type(each) is not int or each < 1)]
        return f"{wrong[0]} is {numbers[wrong[0]]!r}, not a positive whole number" if wrong else ""

    def _missing_limit(self) -> str:
        sends_rate = any(LOAD_PATTERNS[each].arrivals is Arrivals.AT_A_RATE for each in self.scenarios)
        if self.tokens is Tokens.INFERRED and not self.tokens_per_sample:
            return "tokens are inferred, and tokens_per_sample does not say how many"
        if not sends_rate:
            return ""
        if self.tokens is Tokens.MEASURED:
            is_limited = bool(self.ttft_ms and self.tpot_ms)
            return "" if is_limited else "queries arrive at a rate and tokens are measured: give ttft_ms and tpot_ms"
        return "" if self.server_latency_ms else "queries arrive at a rate: give server_latency_ms"


_COUNTS = (
    *("min_duration_ms", "offline_min_samples", "performance_sample_count"),
    *("server_latency_ms", "ttft_ms", "tpot_ms", "tokens_per_sample"),
)
