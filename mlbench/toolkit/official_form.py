"""The form of official files, and of smaller sets, which run but are not called official.

A smaller set has a file `smaller.toml`, which the setting ``workload.smaller`` names. It has the sizes, counts and
checksums that differ from the official ones, and the scores of its model:

    samples = 24

    [architecture]
    planes = 8

    [reference]
    acc = 98.9

Every workload reads it here. Without it, files that are not the official ones are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from mlbench.errors import DataError
from mlbench.system.documents import first_problem, read_toml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from mlbench.contracts.metric import Target

S = TypeVar("S")
D = TypeVar("D", bound="DataclassInstance")

CHECKSUMS = ("md5", "sha256")
"""Ends of the names of checksum fields: those of a smaller set always differ, and are not listed."""

_LONGEST = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm(Generic[S]):
    """The form of a full profile's files."""

    files: S
    """A workload's own frozen dataclass: the official one, or that of a smaller set."""
    deviations: tuple[str, ...] = ()
    """Differences from the official one: ``planes 8, not 64``."""
    reference: Mapping[str, float] = field(default_factory=dict)
    """Scores of a smaller set's model, by official name; empty: those of the official model."""

    def targets(self, official: Sequence[Target]) -> tuple[Target, ...]:
        """Return the official targets; those of a smaller set around its own reference, where it has one.

        Raises:
            DataError: the reference lacks a score.
        """
        if not self.reference:
            return tuple(official)
        if missing := next((each.score for each in official if each.score not in self.reference), ""):
            raise DataError(f"the smaller set has no reference for {missing}.", hint="Add it below [reference].")
        return tuple(each.scaled_to(self.reference[each.score]) for each in official)


def read_form(official: D, smaller: Path | None) -> FileForm[D]:
    """Return the official form, or that of a smaller set, which a file describes.

    Args:
        official: a frozen dataclass; its fields may be such dataclasses.
        smaller: the file; None for the official files.

    Raises:
        DataError: the file is missing, not TOML, or has entries that the official form lacks.
    """
    from pydantic import TypeAdapter, ValidationError

    if smaller is None:
        return FileForm(files=official)
    content = read_toml(smaller, what="description of a smaller set", hint="Leave out workload.smaller.")
    reference = content.pop("reference", {})
    if unknown := next(_unknown(asdict(official), content), ""):
        raise DataError(f"{smaller} has {unknown}, which is not a size of the official files.")
    try:
        files = TypeAdapter(type(official)).validate_python(asdict(_changed(official, content)))
        scores = TypeAdapter(dict[str, float]).validate_python(reference)
    except ValidationError as error:
        raise DataError(f"description of a smaller set {smaller}: {first_problem(error)}.") from None
    found = tuple(list_deviations(asdict(official), asdict(files)))
    return FileForm(files=files, deviations=found or ("other files",), reference=scores)


def list_deviations(official: Mapping[str, object], found: Mapping[str, object]) -> Iterator[str]:
    """Yield a text for each entry that is not the official one; tables have entries of their own."""
    for name, value in official.items():
        other = found.get(name)
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            yield from list_deviations(value, other)
        elif other != value and not name.endswith(CHECKSUMS):
            yield f"{name} {_short(other)}, not {_short(value)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _unknown(official: Mapping[str, object], given: Mapping[str, object], above: str = "") -> Iterator[str]:
    for name, value in given.items():
        ours = official.get(name)
        if name not in official or isinstance(ours, dict) is not isinstance(value, dict):
            yield f"{above}{name}"
        elif isinstance(ours, dict) and isinstance(value, dict):
            yield from _unknown(ours, value, f"{above}{name}.")


def _changed(official: D, given: Mapping[str, Any]) -> D:
    """Return a dataclass with other values; they are not of the right types yet."""
    values = {
        name: _changed(getattr(official, name), value) if isinstance(value, dict) else value
        for name, value in given.items()
    }
    return replace(official, **values)
