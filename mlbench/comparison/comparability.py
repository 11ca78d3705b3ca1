"""The facts that two runs must share for a meaningful ratio."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from mlbench.errors import IncomparableRunsError, UsageError
from mlbench.records.facts import CONDITIONS, IDENTITY, hand_set, settings_as_text
from mlbench.records.run_record import RunRecord

_SETTINGS = ("load", "execution", "backend", "workload")
"""Prefixes of the keys of settings."""


def _image(record: RunRecord) -> str:
    allowance = record.environment.allowance
    return allowance.image or (f"{allowance.container}, image unknown" if allowance.container else "no container")


def _commit(record: RunRecord, name: str) -> str:
    return record.environment.commits.get(name, "unknown")[:12]


INFORMATION: Mapping[str, Callable[[RunRecord], str]] = {
    "mlbench": lambda record: record.mlbench_version,
    "python": lambda record: record.environment.python,
    "os": lambda record: f"{record.environment.os}, {record.environment.kernel}",
    "image": _image,
    "batch": lambda record: "unknown" if record.engine.batch is None else str(record.engine.batch),
    "instances": lambda record: str(record.engine.instances or 1),
}
"""Facts that may differ, since they are often what a comparison is about; they are listed. Versions of libraries and
the commits of mlbench and of plugins belong to it."""

FACTS = (*IDENTITY, *CONDITIONS)
"""Values that ``--across`` takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact in which the two sides differ."""

    fact: str
    base: str
    new: str

    def __str__(self) -> str:
        return f"{self.fact} differs: {self.base}, then {self.new}"


def key_of(record: RunRecord, across: Collection[str]) -> tuple[str, ...]:
    """Return the facts that a run shares with its repeats, without those compared across."""
    return tuple(fact(record) for name, fact in _identity(across).items() if name not in across)


def _identity(across: Collection[str]) -> Mapping[str, Callable[[RunRecord], str]]:
    """Return the facts that repeats share, with settings compared across as separate facts."""

    def others(record: RunRecord) -> str:
        return settings_as_text({key: value for key, value in hand_set(record).items() if key not in across})

    def of_key(key: str) -> Callable[[RunRecord], str]:
        return lambda record: str(record.settings[key].value) if key in record.settings else "not set"

    keys = [name for name in across if name not in FACTS]
    return {**IDENTITY, "settings": others, **{key: of_key(key) for key in keys}}


def check_facts(across: Collection[str]) -> None:
    """Raise `UsageError` for an unknown fact; the key of a setting is one, whether any run has it or not."""
    for name in across:
        group, dot, field = name.partition(".")
        if name not in FACTS and not (group in _SETTINGS and dot and field):
            known = ", ".join(FACTS)
            raise UsageError(
                f"unknown fact {name!r}.", hint=f"--across takes {known}, or a setting such as backend.url."
            )


def knowing(records: Sequence[RunRecord]) -> Sequence[RunRecord]:
    """Return the records with complete conditions: a failed run has no fingerprints of data or model."""
    return [record for record in records if record.status == "completed"]


def demand_one_condition(records: Sequence[RunRecord], side: str) -> None:
    """Raise `IncomparableRunsError` when the completed runs of one side are not repeats of each other."""
    records = knowing(records)
    for name, fact in {**IDENTITY, **CONDITIONS}.items():
        found = sorted({fact(record) for record in records})
        if len(found) > 1:
            raise IncomparableRunsError(
                f"{side} mixes runs of different {name}: {found[0]}, and {found[1]}.", hint="Name repeats of one run."
            )


def differences(base: RunRecord, new: RunRecord, across: Collection[str] = ()) -> tuple[Difference, ...]:
    """Return the facts that must match but differ; settings that are compared across are facts of their own."""
    facts = {**_identity(across), **CONDITIONS}
    return tuple(_differing(facts, base, new))


def further_differences(base: RunRecord, new: RunRecord) -> tuple[Difference, ...]:
    """Return the facts that differ and may differ."""
    libraries = {**base.environment.libraries, **new.environment.libraries}
    versions: dict[str, Callable[[RunRecord], str]] = {
        name: lambda record, name=name: record.environment.libraries.get(name, "absent")  # type: ignore[misc]
        for name in sorted(libraries)
    }
    commits: dict[str, Callable[[RunRecord], str]] = {
        f"commit of {name}": lambda record, name=name: _commit(record, name)  # type: ignore[misc]
        for name in sorted({**base.environment.commits, **new.environment.commits})
    }
    return tuple(_differing({**INFORMATION, **versions, **commits}, base, new))


def _differing(
    facts: Mapping[str, Callable[[RunRecord], str]], base: RunRecord, new: RunRecord
) -> Sequence[Difference]:
    values = ((name, fact(base), fact(new)) for name, fact in facts.items())
    return [Difference(fact=name, base=one, new=other) for name, one, other in values if one != other]


def across_with_what_follows(across: Collection[str]) -> Collection[str]:
    """Return the facts that may differ: those compared across, and those that follow from these."""
    found = [*across, *(["tuning"] if any(fact in IDENTITY for fact in across) else [])]
    found += ["number_format"] if {"backend", "precision"}.intersection(across) else []
    found += ["memory"] if {"backend", "hardware", "settings"}.intersection(across) else []
    found += ["transformed"] if "transform" in across else []
    found += ["seeds"] if "round" in across else []
    return [*found, "traffic"] if "scenario" in across else found


def demand_comparable(base: RunRecord, new: RunRecord, across: Collection[str]) -> None:
    """Raise `IncomparableRunsError`, naming every fact that differs but must match."""
    allowed = across_with_what_follows(across)
    found = [difference for difference in differences(base, new, across) if difference.fact not in allowed]
    if found:
        flags = " ".join(f"--across {difference.fact}" for difference in found)
        raise IncomparableRunsError("; ".join(map(str, found)) + ".", hint=f"Compare anyway with {flags}.")
