"""``v4_1.toml`` as it stands, and what a list needs of it; `official` makes typed rules of all, which takes longer."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from mlbench.contracts.rules import Rules
from mlbench.contracts.workload import Workload
from mlbench.errors import UsageError


class OfficialTable(NamedTuple):
    """The tables of the file."""

    scenarios: Mapping[str, Any]
    """By LoadGen's name, in its order."""
    workloads: Mapping[str, Any]
    """By LoadGen's name."""
    seeds: Mapping[str, Any]
    durations: Mapping[str, Any]
    results: Mapping[str, Any]
    early_stopping: Mapping[str, Any]


@cache
def read_table() -> OfficialTable:
    """Return the file's tables."""
    with open(os.path.join(os.path.dirname(__file__), "v4_1.toml"), "rb") as file:
        tables = tomllib.load(file)
    return OfficialTable(**{name: tables[name] for name in OfficialTable._fields})


def official_scenarios(name: str) -> tuple[str, ...]:
    """Return the scenarios that any category defines for a workload, by LoadGen's names and in its order.

    Raises:
        UsageError: v4.1 has no such workload.
    """
    table = read_table()
    if name not in table.workloads:
        raise UsageError(f"v4.1 has no rules for workload {name!r}.", hint=f"It has: {', '.join(table.workloads)}.")
    defined = {scenario for scenarios in table.workloads[name]["scenarios"].values() for scenario in scenarios}
    return tuple(scenario for scenario in table.scenarios if scenario in defined)


def scenarios_of(workload: Workload) -> tuple[str, ...]:
    """Return the scenarios that a workload's rules define, its own ones or official ones; raises as above."""
    rules = workload.rules
    return rules.scenarios if isinstance(rules, Rules) else official_scenarios(rules)
