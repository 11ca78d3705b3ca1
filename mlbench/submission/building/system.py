"""The system of a new tree: the description that a person gives, completed and compared with the records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.documents import read_json_object
from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord
from mlbench.rules.official import Category
from mlbench.submission.system_description import empty_fields
from mlbench.submission.system_fields import (
    FREE_FIELDS,
    IS_NETWORK,
    MEANINGFUL_FIELDS,
    STATUSES,
    SYSTEM_TYPES,
    TEXT_FIELDS,
)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_TEST = re.compile(r"TEST0\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Who submits what kind of system."""

    division: str
    submitter: str
    name: str
    """The name of its folders."""
    fields: Mapping[str, str | int]
    """The content of ``systems/<name>.json``."""

    @property
    def categories(self) -> list[Category]:
        """Return the categories that it is submitted in."""
        names = str(self.fields["system_type"]).split(",")
        return [each for each in Category if each in names]

    def text(self) -> str:
        """Return the file."""
        return json.dumps(self.fields, indent=2, ensure_ascii=False) + "\n"


def read_system(file: Path, submitter: str, division: str, categories: Sequence[Category]) -> System:
    """Return the system that a file describes; what is asked for fills fields that are empty there.

    Args:
        file: as `mlbench system describe` writes it.
        submitter: the organisation.
        division: ``closed`` or ``open``.
        categories: of the system; none: as the file says.

    Raises:
        DataError: the file cannot be read.
        UsageError: a field is missing or contradicts what is asked for, or a name cannot be that of a folder.
    """
    asked = {"submitter": submitter, "division": division, "system_type": ",".join(categories)}
    given = read_json_object(file, what="description of a system")
    fields = given | {name: value for name, value in asked.items() if value and not given.get(name)}
    _check_asked(file, fields, asked)
    _check_fields(file, fields)
    name = str(fields["system_name"])
    for what, word in (("submitter", submitter), ("system_name", name)):
        _check_name(what, word)
    return System(division=division, submitter=submitter, name=name, fields=fields)


def check_records(system: System, records: Sequence[RunRecord]) -> None:
    """Raise `UsageError` where the runs are of several machines, or not of the described one."""
    first, *others = records
    for record in others:
        if record.environment.machine != first.environment.machine:
            raise UsageError(
                f"runs {first.run_id} and {record.run_id} were made on different machines.",
                hint="A system is one machine: name the runs of one.",
            )
        if _count_nodes(record) != _count_nodes(first):
            raise UsageError(
                f"runs {first.run_id} and {record.run_id} were made on {_count_nodes(first)} and "
                f"{_count_nodes(record)} nodes.",
                hint="A system has one number of nodes: name the runs of one.",
            )
    environment, fields = first.environment, system.fields
    found = {
        "number_of_nodes": str(_count_nodes(first)),
        "host_processor_model_name": environment.cpu.model,
        "accelerators_per_node": str(len(environment.accelerators)),
        **({"accelerator_model_name": _names(first)} if environment.accelerators else {}),
    }
    for name, value in found.items():
        if _plain(str(fields[name])) != _plain(value):
            raise UsageError(
                f"{name} of the system is {fields[name]!r}, and run {first.run_id} was made with {value!r}.",
                hint="Describe the machine of the runs: `mlbench system describe` there.",
            )


def _count_nodes(record: RunRecord) -> int:
    """Return how many machines answered: those of a cluster, or this one."""
    return len(record.cluster.nodes) if record.cluster else 1


def _names(record: RunRecord) -> str:
    return ", ".join(sorted({each.name for each in record.environment.accelerators}))


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _check_asked(file: Path, fields: Mapping[str, object], asked: Mapping[str, str]) -> None:
    for name, value in asked.items():
        found = str(fields.get(name, ""))
        one, other = (sorted(each.lower().split(",")) for each in (found, value))
        if value and one != other:
            raise UsageError(f"{file}: {name} is {found!r}, and {value!r} is asked for.", hint="Change one of them.")


def _check_fields(file: Path, fields: Mapping[str, object]) -> None:
    if fields.get(IS_NETWORK):
        raise UsageError(f"{file}: {IS_NETWORK} is set: trees of the network division are not built.")
    missing = [*empty_fields(fields), *(name for name in FREE_FIELDS if name not in fields)]
    if missing:
        raise UsageError(
            f"{file}: fields are missing or empty: {', '.join(missing)}.",
            hint="`mlbench system describe` fills what the machine says.",
        )
    for name in (*MEANINGFUL_FIELDS, *FREE_FIELDS):
        value = fields[name]
        if not isinstance(value, str | int) or (name in TEXT_FIELDS and not isinstance(value, str)):
            raise UsageError(f"{file}: {name} is {json.dumps(value)[:80]}.", hint="Write it as text in quotes.")
    for name, known in (("status", STATUSES), ("system_type", SYSTEM_TYPES)):
        if str(fields[name]).lower() not in known:
            raise UsageError(f"{file}: {name} is {fields[name]!r}.", hint=f"It is one of: {'; '.join(known)}.")


def _check_name(what: str, word: str) -> None:
    if not _NAME.fullmatch(word) or _TEST.search(word):
        raise UsageError(
            f"{what} {word!r} cannot be the name of a folder in a tree.",
            hint="Letters, digits, '_', '.', '+' and '-', no blanks, and no name of a compliance test.",
        )
