"""The system of a new tree: the user's description, completed from options and records."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord
from mlbench.rules.entry_demand import Division
from mlbench.rules.official import Round, default_round
from mlbench.rules.round_parts import Category
from mlbench.submission.system_description import (
    NETWORK_PROTOCOL,
    empty_fields,
    loadgen_network_stack,
    sut_network_stack,
)
from mlbench.submission.system_fields import (
    FREE_FIELDS,
    IS_NETWORK,
    MEANINGFUL_FIELDS,
    NETWORK_FIELDS,
    NETWORK_SYSTEM_TYPE,
    STATUSES,
    SYSTEM_TYPES,
    check_types,
    is_network_system,
)
from mlbench.system.documents import read_json_object

RECORDED_FIELDS = ("network_protocol", "number_connections", "net_software_stack_loadgen", "net_software_stack_sut")
"""Fields of a system over a network that a run recorded; `with_recorded` fills those that are empty."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_TEST = re.compile(r"TEST0\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Submitter, division and kind of a system."""

    division: str
    submitter: str
    name: str
    """The name of its folders."""
    round: Round = field(default_factory=default_round, repr=False)
    """The round that the tree is of."""
    fields: Mapping[str, str | int]
    """The content of ``systems/<name>.json``."""

    @property
    def is_network(self) -> bool:
        """Return whether it is reached over a network."""
        return is_network_system(self.fields)

    @property
    def categories(self) -> list[Category]:
        """Return the categories that it is submitted in."""
        names = str(self.fields["system_type"]).split(",")
        return [each for each in Category if each in names]

    def text(self) -> str:
        """Return the file."""
        return json.dumps(self.fields, indent=2, ensure_ascii=False) + "\n"


def read_system(
    file: Path, submitter: str, division: str, categories: Sequence[Category], of: Round | None = None
) -> System:
    """Return the system that a file describes; options fill fields that are empty there.

    Args:
        file: as `mlbench system describe` writes it.
        submitter: the organisation.
        division: of the tree.
        categories: of the system; none: as the file says.
        of: the round of the tree; None: the default one.

    Raises:
        DataError: the file cannot be read.
        UsageError: a field is missing, but for `RECORDED_FIELDS`, or contradicts what is asked for, or a name cannot be
            that of a folder.
    """
    is_network = division == Division.NETWORK
    system_type = ",".join(categories) or (NETWORK_SYSTEM_TYPE if is_network else "")
    asked = {"submitter": submitter, "division": division, "system_type": system_type}
    asked |= {IS_NETWORK: "true"} if is_network else {}
    given = read_json_object(file, what="description of a system")
    fields = given | {name: value for name, value in asked.items() if value and not given.get(name)}
    _check_asked(file, fields, asked)
    _check_fields(file, fields)
    name = str(fields["system_name"])
    for what, word in (("submitter", submitter), ("system_name", name)):
        _check_name(what, word)
    return System(division=division, submitter=submitter, name=name, fields=fields, round=of or default_round())


def with_recorded(system: System, record: RunRecord) -> System:
    """Return the system with the fields filled that a run of it recorded; what a person wrote stays.

    Args:
        system: any.
        record: of one of its runs; `check_records` says that the others are like it.
    """
    if not system.is_network or not record.network:
        return system
    network = record.network
    found = {
        "network_protocol": f"{NETWORK_PROTOCOL}, TLS" if network.is_encrypted else NETWORK_PROTOCOL,
        "number_connections": str(network.connections * len(network.nodes)),
        "net_software_stack_loadgen": loadgen_network_stack(record.mlbench_version),
        "net_software_stack_sut": ", ".join(
            dict.fromkeys(sut_network_stack(each.node.mlbench_version, each.node.environment) for each in network.nodes)
        ),
    }
    return replace(system, fields={**system.fields, **{k: v for k, v in found.items() if not system.fields.get(k)}})


def _check_asked(file: Path, fields: Mapping[str, object], asked: Mapping[str, str]) -> None:
    for name, value in asked.items():
        found = str(fields.get(name, ""))
        one, other = (sorted(each.lower().split(",")) for each in (found, value))
        if value and one != other:
            raise UsageError(f"{file}: {name} is {found!r}, but {value!r} is requested.", hint="Change one of them.")


def _check_fields(file: Path, fields: Mapping[str, object]) -> None:
    _check_division(file, fields)
    missing = [name for name in empty_fields(fields) if name not in RECORDED_FIELDS]
    missing += [name for name in FREE_FIELDS if name not in fields]
    if missing:
        raise UsageError(
            f"{file}: fields are missing or empty: {', '.join(missing)}.",
            hint="`mlbench system describe` fills the fields that it can detect.",
        )
    check_types(file, {name: fields.get(name, "") for name in (*MEANINGFUL_FIELDS, *FREE_FIELDS, *NETWORK_FIELDS)})
    for name, known in (("status", STATUSES), ("system_type", SYSTEM_TYPES)):
        if str(fields[name]).lower() not in known:
            raise UsageError(f"{file}: {name} is {fields[name]!r}.", hint=f"It is one of: {'; '.join(known)}.")
    if is_network_system(fields) and fields["system_type"] != NETWORK_SYSTEM_TYPE:
        raise UsageError(
            f"{file}: system_type is {fields['system_type']!r}, and a system over a network is for a "
            f"{NETWORK_SYSTEM_TYPE}.",
            hint="Change it, or --category.",
        )


def _check_division(file: Path, fields: Mapping[str, object]) -> None:
    """Raise where the description is of a system over a network, and the division takes none."""
    said = fields.get(IS_NETWORK, "")
    if not isinstance(said, str):
        raise UsageError(f"{file}: {IS_NETWORK} is {json.dumps(said)[:80]}.", hint="Write it as text in quotes.")
    if is_network_system(fields) and fields["division"] == Division.CLOSED:
        raise UsageError(
            f"{file}: {IS_NETWORK} is {fields[IS_NETWORK]!r}, and the closed division has no such system.",
            hint="Use --division network or open.",
        )


def _check_name(what: str, word: str) -> None:
    if not _NAME.fullmatch(word) or _TEST.search(word):
        raise UsageError(
            f"{what} {word!r} cannot be the name of a folder in a tree.",
            hint="Letters, digits, '_', '.', '+' and '-', no blanks, and no name of a compliance test.",
        )
