"""Facts of a scenario in a record, so that readers work without the scenario's plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from mlbench.contracts.load_pattern import LOAD_PATTERNS, Arrivals
from mlbench.contracts.scenario import ComparedBy, Scenario
from mlbench.records.stored import Stored

UNKNOWN = "unknown"


class ScenarioRecord(Stored):
    """Facts about a scenario for reports and comparisons."""

    loadgen: str
    """LoadGen's scenario that generated the traffic: ``Server``; ``unknown`` in an older record of another scenario."""
    arrivals: Arrivals | None
    """Arrival pattern of queries: ``one by one``, ``at a rate`` or ``all at once``; null where ``loadgen`` is
    unknown."""
    percentile: float | None
    """Percentile of the latency that the scenario reports, as a fraction; null where latencies are meaningless."""
    has_estimate: bool
    """Whether the result is LoadGen's early-stopping estimate of that percentile."""
    compared_by: ComparedBy
    """Value by which runs are compared: ``result``, or ``latency`` at the percentile."""

    rules: str = ""
    """The official scenario whose rules applied, where it is not LoadGen's: ``Interactive``."""
    is_beyond_rules: bool = False
    """Whether the scenario is none of v4.1's, and runs where the rules define nothing of the kind."""

    @classmethod
    def of(cls, scenario: Scenario) -> Self:
        """Return the facts of a scenario for a run's record."""
        return cls(
            loadgen=scenario.loadgen,
            arrivals=scenario.pattern.arrivals,
            percentile=scenario.percentile,
            has_estimate=scenario.has_estimate,
            compared_by="latency" if scenario.is_compared_by_latency else "result",
            rules=scenario.rules,
            is_beyond_rules=scenario.is_beyond_rules,
        )

    @property
    def sends_rate(self) -> bool:
        """Return whether queries arrived at a rate that was asked for."""
        return self.arrivals is Arrivals.AT_A_RATE

    @property
    def sends_all_at_once(self) -> bool:
        """Return whether all samples were one query."""
        return self.arrivals is Arrivals.ALL_AT_ONCE

    def __str__(self) -> str:
        if self.arrivals is None:
            return UNKNOWN
        latency = f", p{100 * self.percentile:g}" if self.percentile else ""
        return f"LoadGen's {self.loadgen}{latency}, compared by {self.compared_by}"


def facts_of_older(fields: Mapping[str, object]) -> ScenarioRecord:
    """Return the scenario facts of a record of format 1 or 2, which has only the scenario's name."""
    name = fields.get("scenario")
    return _BEFORE_FORMAT_3.get(name, _UNNAMED) if isinstance(name, str) else _UNNAMED


_PERCENTILES = {"SingleStream": 0.90, "MultiStream": 0.99, "Server": 0.99, "Offline": None}
"""Percentiles of the latency that the official scenarios reported before format 3."""


def _official(loadgen: str, percentile: float | None) -> ScenarioRecord:
    """Return the facts of an official scenario before format 3."""
    arrivals = LOAD_PATTERNS[loadgen].arrivals
    return ScenarioRecord(
        loadgen=loadgen,
        arrivals=arrivals,
        percentile=percentile,
        has_estimate=arrivals is Arrivals.ONE_BY_ONE,
        compared_by="latency" if arrivals is Arrivals.AT_A_RATE else "result",
    )


_UNNAMED = ScenarioRecord(loadgen=UNKNOWN, arrivals=None, percentile=None, has_estimate=False, compared_by="result")
_BEFORE_FORMAT_3 = {name: _official(name, percentile) for name, percentile in _PERCENTILES.items()}
