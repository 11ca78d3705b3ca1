"""A sign of life of a process: its stage, and one fact about it, whose type the reader names."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self, TypeVar

from mlbench.system.documents import JsonObject
from mlbench.wire.json_values import value_of_json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Fact = TypeVar("Fact", bound=DataclassInstance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of a batch, or of a stage."""

    done: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressMessage:
    """The stage of a process, and perhaps a fact."""

    stage: str
    facts: JsonObject = field(default_factory=dict)
    """The fields of the fact, as JSON values; empty without one."""

    @classmethod
    def of(cls, stage: str, fact: DataclassInstance | None = None) -> Self:
        """Return the progress that tells a fact."""
        return cls(stage=stage, facts=dataclasses.asdict(fact) if fact else {})

    def read(self, kind: type[Fact]) -> Fact | None:
        """Return the fact where it is of this type; None where it is another one, there is none, or a value is odd."""
        from pydantic import ValidationError

        if self.facts.keys() != {each.name for each in dataclasses.fields(kind)}:
            return None
        try:
            return value_of_json(kind, self.facts)
        except (ValidationError, RecursionError):
            return None
