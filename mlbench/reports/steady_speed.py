"""The speed of a language model in Offline while all its slots are in use."""

from __future__ import annotations

from mlbench.contracts.rules import Tokens
from mlbench.contracts.statistics import GenerationStatistics
from mlbench.records.run_record import RunRecord
from mlbench.reports.units import quantity


def steady_speed(record: RunRecord) -> str:
    """Return the speed while samples waited for a slot; empty if none waited, or samples came over time.

    In samples where the rules count a fixed number of tokens for each, since the result's tokens are not the answers'.
    """
    engine = record.engine
    if not isinstance(engine, GenerationStatistics) or not record.scenario_facts.sends_all_at_once:
        return ""
    is_inferred = record.limits.get("tokens") == Tokens.INFERRED
    per_s = engine.steady_samples_per_s if is_inferred else engine.steady_tokens_per_s
    return quantity(per_s, "samples/s" if is_inferred else "tokens/s") if per_s else ""
