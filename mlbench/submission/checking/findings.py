"""A finding about a tree: what is wrong, which results it costs, and what the official checker says of the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from mlbench.records.run_record import RuleRecord
from mlbench.submission.tree import ResultEntry


class Reaction(StrEnum):
    """The reaction of the round's submission checker to a finding."""

    REFUSES = "refuses"
    ACCEPTS = "accepts"
    """It says nothing, or logs a line that costs no result."""
    CRASHES = "crashes"
    """It ends with a traceback, and no submitter gets a result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFinding:
    """Something wrong with a tree."""

    rule: str
    path: str
    """The file or folder, from the root of the tree."""
    message: str
    """The fault and, if not obvious, the fix."""
    loses: str
    """The folder whose results it costs, from the root; empty: all results of the tree."""
    official: Reaction = Reaction.REFUSES
    is_note: bool = False
    """Whether it costs no result: the rules want it, and no checker asks."""
    evidence: RuleRecord | None = None
    """The rule that was applied to a log, with what was measured."""

    def as_note(self) -> TreeFinding:
        """Return the same as something that no checker asks for."""
        return replace(self, official=Reaction.ACCEPTS, is_note=True)

    def concerns(self, path: str) -> bool:
        """Return whether a result, or a folder of results, is among those that it costs."""
        return not self.loses or path == self.loses or path.startswith(f"{self.loses}/")

    def is_refused_officially(self, path: str) -> bool:
        """Return whether it keeps the official checker from counting a result."""
        return self.official is Reaction.CRASHES or (self.official is Reaction.REFUSES and self.concerns(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedFolder:
    """A folder about one result of a tree: what is wrong in it costs that result."""

    entry: ResultEntry
    folder: Path

    def finding(  # noqa: PLR0913 - a finding has as many facts
        self,
        rule: str,
        name: str,
        message: str,
        official: Reaction = Reaction.REFUSES,
        *,
        is_note: bool = False,
        evidence: RuleRecord | None = None,
    ) -> TreeFinding:
        """Return a finding about a file or folder inside it; without a name, about itself."""
        return TreeFinding(
            rule=rule,
            path=(self.folder / name).relative_to(self.entry.root).as_posix(),
            message=message.replace(f"{self.folder}/", ""),
            loses=self.entry.path,
            official=official,
            is_note=is_note,
            evidence=evidence,
        )


def list_names(names: list[str], most: int = 3) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
