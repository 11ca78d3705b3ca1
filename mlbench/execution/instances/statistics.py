"""Merges the statistics of several instances."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from mlbench.contracts.engine import GraphCalls
from mlbench.contracts.statistics import SETTING, EngineStatistics
from mlbench.execution.call_counts import sum_counts

_Counts = TypeVar("_Counts", EngineStatistics, Any)

_LONGEST = "longest_"


def add_statistics(parts: Sequence[EngineStatistics]) -> EngineStatistics:
    """Return counts added up, those within fields and ``extra`` too; of ``longest_...`` the longest.

    What is not a count is kept where it is the same in all parts, else left out: the parts are in the record as well.

    Args:
        parts: of one engine's instances, so all of one kind.
    """
    return _add_fields(type(parts[0]), parts) if parts else EngineStatistics()


def _add_fields(kind: type[_Counts], parts: Sequence[_Counts]) -> _Counts:
    found = {
        each.name: _add_values(
            each.name, [getattr(part, each.name) for part in parts], is_setting=each.metadata == SETTING
        )
        for each in fields(kind)
    }
    return kind(**{name: value for name, value in found.items() if value is not None})


def _add_values(name: str, values: Sequence[Any], *, is_setting: bool = False) -> Any:
    """Return the combined value, without those that are None; None if all are."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    if is_dataclass(values[0]):
        return _add_fields(type(values[0]), values)
    if all(isinstance(value, Mapping) for value in values):
        names = dict.fromkeys(name for value in values for name in value)
        sums = {name: _add_values(str(name), [value.get(name) for value in values]) for name in names}
        return {name: value for name, value in sums.items() if value is not None}
    if not is_setting and all(type(value) in (int, float) for value in values):
        return max(values) if name.startswith(_LONGEST) else sum(values)
    return values[0] if all(value == values[0] for value in values) else None


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
