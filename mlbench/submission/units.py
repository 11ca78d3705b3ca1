"""Units as a round's official summary prints them, which are not always those of its values.

Source: submission checkers, ``special_unit_dict`` and ``SPECIAL_UNIT_DICT``.
"""

from __future__ import annotations

from mlbench.contracts.scenario import Scenario
from mlbench.rules.official import WorkloadRules


def summary_unit(rules: WorkloadRules, scenario: Scenario) -> str:
    """Return the unit that the summary of a workload's round prints: ``Tokens/s``, ``Latency (ms)``."""
    units, name = rules.round.units, scenario.official
    if printed := units.printed.get(rules.name, {}).get(name):
        return printed
    if not scenario.higher_is_better:
        return "Latency (s)" if rules.name in units.seconds else "Latency (ms)"
    if rules.name in units.tokens:
        return "Tokens/s"
    if rules.name in units.tasks:
        return "Tasks/s"
    return "Queries/s" if scenario.sends_rate else "Samples/s"
