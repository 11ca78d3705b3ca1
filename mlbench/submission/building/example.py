"""An example of a tree: who would submit it, and which of the stored runs stand in it."""

from __future__ import annotations

from collections.abc import Iterable

from mlbench.errors import UsageError
from mlbench.records.environment import observe_environment
from mlbench.records.machine.host_hardware import observe_host_hardware
from mlbench.rules.entry_demand import Division
from mlbench.rules.round_parts import Category
from mlbench.submission.building.entries import BuiltEntry
from mlbench.submission.building.stored import StoredRun
from mlbench.submission.building.system import System
from mlbench.submission.planning import required_entries
from mlbench.submission.system_description import describe_system, empty_fields

_NAME = "not_submittable"


def example_system() -> System:
    """Return this machine in the open division, which requires no compliance tests."""
    found = describe_system(observe_environment(), observe_host_hardware())
    asked = {"submitter": _NAME, "division": Division.OPEN, "system_type": "edge", "system_name": _NAME}
    fields = found | asked
    return System(
        division=Division.OPEN,
        submitter=_NAME,
        name=_NAME,
        fields=fields | dict.fromkeys(empty_fields(fields), "for a person to fill"),
    )


def example_entries(system: System, runs: Iterable[StoredRun]) -> list[BuiltEntry]:
    """Return an entry for each workload and scenario that a stored run has a result and a score of.

    Raises:
        UsageError: there is none.
    """
    newest = {
        (each.record.workload, each.record.scenario): each
        for each in sorted(runs, key=lambda each: each.record.created)
        if each.record.result
        and each.record.accuracy
        and not each.record.imported
        and not each.record.accuracy.tested_in
    }
    entries: dict[tuple[str, str], BuiltEntry] = {}
    for required in required_entries([Category.EDGE, Category.DATACENTER]):
        kind = (required.workload, required.scenario)
        if kind in newest:
            entries.setdefault(kind, BuiltEntry(required=required, run=newest[kind]))
    if not entries:
        raise UsageError("there is no run with an accuracy to make a tree of.", hint="`mlbench demo` makes one.")
    return list(entries.values())
