"""Demands on the description of a system.

Source: submission checkers v4.1 to v6.1, ``check_system_desc_id`` and ``is_system_over_network``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mlbench.errors import DataError
from mlbench.submission.checking.findings import Reaction, TreeFinding, list_names
from mlbench.submission.system_fields import (
    FREE_FIELDS,
    IS_NETWORK,
    MEANINGFUL_FIELDS,
    NETWORK_FIELDS,
    NETWORK_SYSTEM_TYPE,
    POWER_FIELDS,
    STATUSES,
    SYSTEM_TYPES,
    TEXT_FIELDS,
    is_network_system,
)
from mlbench.submission.tree import RESULTS, ResultEntry
from mlbench.system.documents import is_file, read_json_object

_IN_CSV = ("system_name", "host_processor_model_name", "accelerator_model_name", "framework", "operating_system")
_NETWORK_DIVISIONS = {"network": True, "closed": False}
"""Divisions that say whether a system may be reached over a network."""


def check_system(entry: ResultEntry) -> Iterator[TreeFinding]:
    """Yield what is wrong with the description of the system that a result belongs to."""
    loses = f"{entry.division}/{entry.submitter}/{RESULTS}/{entry.system}"
    path = entry.system_file.relative_to(entry.root).as_posix()
    for rule, message, official in _problems(entry):
        is_note = rule in {"system_unknown_fields", "system_quotes"}
        yield TreeFinding(rule=rule, path=path, message=message, loses=loses, official=official, is_note=is_note)


_Problem = tuple[str, str, Reaction]
"""Rule, message, what the official checker does."""


def _problems(entry: ResultEntry) -> Iterator[_Problem]:
    if not is_file(entry.system_file):
        yield "system_description", f"is missing: the system {entry.system!r} has no description.", Reaction.REFUSES
        return
    try:
        fields = read_json_object(entry.system_file, what="description")
    except DataError as error:
        yield "system_description", _without_path(error, entry.system_file), Reaction.CRASHES
        return
    yield from _choices(fields)
    yield from _owner(fields, entry)
    yield from _network(fields, entry.division)
    yield from _completeness(fields, entry.round.name)
    yield from _texts(fields)


def _choices(fields: Mapping[str, object]) -> Iterator[_Problem]:
    status, system_type = fields.get("status"), fields.get("system_type")
    if not isinstance(status, str):
        yield "system_status", f"status is not a text; it is one of {', '.join(STATUSES)}.", Reaction.CRASHES
    elif status.lower() not in STATUSES:
        yield "system_status", f"status is {status!r}, not one of {', '.join(STATUSES)}.", Reaction.REFUSES
    if system_type not in SYSTEM_TYPES:
        message = f"system_type is {system_type!r}, not one of {'; '.join(SYSTEM_TYPES)}."
        yield "system_type", message, Reaction.REFUSES


def _owner(fields: Mapping[str, object], entry: ResultEntry) -> Iterator[_Problem]:
    submitter, division = fields.get("submitter"), fields.get("division")
    if not isinstance(submitter, str):
        yield "system_submitter", f"submitter is not a text; the folder is {entry.submitter!r}.", Reaction.CRASHES
    elif submitter.lower() != entry.submitter.lower():
        message = f"submitter is {submitter!r}, in a folder of {entry.submitter!r}."
        yield "system_submitter", message, Reaction.REFUSES
    if division != entry.division:
        yield "system_division", f"division is {division!r}, in a folder of {entry.division!r}.", Reaction.REFUSES


def _network(fields: Mapping[str, object], division: str) -> Iterator[_Problem]:
    said = fields.get(IS_NETWORK)
    if said is not None and not isinstance(said, str):
        yield "system_network", f'{IS_NETWORK} is not a text; write "true" or leave it out.', Reaction.CRASHES
        return
    is_network = is_network_system(fields)
    if _NETWORK_DIVISIONS.get(division, is_network) is not is_network:
        wanted = 'is "true"' if division == "network" else 'is not "true"'
        yield "system_network", f"{IS_NETWORK} is {said!r}; in the {division} division it {wanted}.", Reaction.REFUSES
    if is_network and (missing := [name for name in NETWORK_FIELDS if name not in fields]):
        yield "system_fields", f"fields of a network system are missing: {', '.join(missing)}.", Reaction.REFUSES
    if is_network and fields.get("system_type") != NETWORK_SYSTEM_TYPE:
        message = f"a system that is reached over a network is for {NETWORK_SYSTEM_TYPE}s alone."
        yield "network_category", message, Reaction.ACCEPTS


def _completeness(fields: Mapping[str, object], of: str) -> Iterator[_Problem]:
    if missing := [name for name in (*MEANINGFUL_FIELDS, *FREE_FIELDS) if name not in fields]:
        yield "system_fields", f"fields are missing: {', '.join(missing)}.", Reaction.REFUSES
    if empty := [name for name in MEANINGFUL_FIELDS if name in fields and not fields[name]]:
        message = f'fields are empty or the number 0: {", ".join(empty)}. Write "N/A", or "0" as a text.'
        yield "system_empty_fields", message, Reaction.REFUSES
    known = {*MEANINGFUL_FIELDS, *FREE_FIELDS, *NETWORK_FIELDS, *POWER_FIELDS, IS_NETWORK}
    if unknown := sorted({*fields} - known):
        yield "system_unknown_fields", f"fields that {of} does not know: {list_names(unknown)}.", Reaction.ACCEPTS


def _texts(fields: Mapping[str, object]) -> Iterator[_Problem]:
    if odd := [name for name in TEXT_FIELDS if name in fields and not isinstance(fields[name], str)]:
        yield "system_texts", f"fields are not texts: {', '.join(odd)}.", Reaction.CRASHES
    if quoted := [name for name in _IN_CSV if '"' in str(fields.get(name, ""))]:
        message = f"double quotes break the official summary's columns: {', '.join(quoted)}."
        yield "system_quotes", message, Reaction.ACCEPTS


def _without_path(error: DataError, file: Path) -> str:
    return error.message.replace(str(file), file.name)
