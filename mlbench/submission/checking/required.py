"""The models and scenarios that the category of a system demands.

Source: submission checkers v4.1 to v6.1, ``get_required``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from mlbench.errors import DataError
from mlbench.rules.round_parts import Category
from mlbench.submission.checking.findings import TreeFinding
from mlbench.submission.tree import ResultEntry, benchmark_of, scenario_of
from mlbench.system.documents import read_json_object


def check_scenarios(entries: Sequence[ResultEntry]) -> Iterator[TreeFinding]:
    """Yield, for each model of a closed or network system, the required scenarios that have no folder.

    A folder whose result is refused has its own findings. The official checker still lists the other scenarios in its
    summary, but ends with an error.
    """
    for _, group in groupby(entries, key=lambda entry: entry.path.rpartition("/")[0]):
        found = list(group)
        if found[0].division == "open":
            continue
        try:
            benchmark, system_type = benchmark_of(found[0]), _system_type(found[0])
        except DataError:
            continue  # an unknown model, or no description: findings of their own
        there = {scenario_of(entry).name for entry in found if _is_scenario(entry) and is_named_officially(entry)}
        path = found[0].path.rpartition("/")[0]
        required = benchmark.required([each for each in Category if each in system_type.split(",")])
        if missing := required.missing(there):
            message = f"lacks the required {', '.join(missing)}."
            yield TreeFinding(rule="required_scenarios", path=path, message=message, loses=path)
        also = found[0].round.checks.also_required.get(found[0].model, {}).get(system_type, ())
        if missing := [name for name in also if name not in there]:
            message = f"by mistake the official checker requires {', '.join(missing)} of a system for {system_type}."
            yield TreeFinding(rule="required_scenarios", path=path, message=message, loses=path, is_note=True)


def _system_type(entry: ResultEntry) -> str:
    return str(read_json_object(entry.system_file, what="description").get("system_type"))


def is_named_officially(entry: ResultEntry) -> bool:
    """Return whether a scenario's folder has LoadGen's name of it, or that in lower case."""
    name = scenario_of(entry).name
    return entry.scenario in (name, name.lower())


def _is_scenario(entry: ResultEntry) -> bool:
    try:
        scenario_of(entry)
    except DataError:
        return False
    return True
