"""What several instances counted, as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlbench.contracts.engine import GraphCalls
from mlbench.execution.call_counts import sum_counts

_SETTINGS = ("batch", "workers", "beams", "prefill_tokens", "columns")
"""Numbers of `Engine.statistics` that are choices, and not counts."""


def add_statistics(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return counts added up, those within mappings too; of ``longest_...`` the longest.

    What is no count is kept where it is the same in all parts, else left out: the parts are in the record as well.

    Args:
        parts: JSON values.
    """
    total: dict[str, Any] = {}
    for name in dict.fromkeys(name for part in parts for name in part):
        values = [part[name] for part in parts if name in part]
        if all(isinstance(value, Mapping) for value in values):
            total[name] = add_statistics(values)
        elif name not in _SETTINGS and all(type(value) in (int, float) for value in values):
            total[name] = max(values) if name.startswith("longest_") else sum(values)
        elif all(value == values[0] for value in values):
            total[name] = values[0]
    return total


def add_calls(calls: Iterable[GraphCalls]) -> Sequence[GraphCalls]:
    """Return calls with equal ones as one, the most frequent first."""
    return sum_counts(
        (
            (
                call.graph,
                tuple((name, tuple(shape)) for name, shape in call.shapes.items()),
                (*call.state_sizes.items(),),
            ),
            call.count,
        )
        for call in calls
    )


def alike(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts that all parts agree on; the others, where there are any, as a list ``by_instance``."""
    first = parts[0] if parts else {}
    same = {name: value for name, value in first.items() if all(part.get(name) == value for part in parts)}
    differing = [{name: value for name, value in part.items() if name not in same} for part in parts]
    return {**same, "by_instance": differing} if any(differing) else same
