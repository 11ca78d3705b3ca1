"""Every result of a tree with its verdict: mlbench's, and the official checker's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.records.run_record import ResultRecord
from mlbench.submission.checking.compliance import check_compliance
from mlbench.submission.checking.descriptions import check_system
from mlbench.submission.checking.findings import TreeFinding
from mlbench.submission.checking.folders import check_root, check_submitter, submitters_of
from mlbench.submission.checking.implementations import check_measurements
from mlbench.submission.checking.required import check_scenarios
from mlbench.submission.checking.results import ResultCheck, check_result
from mlbench.submission.rounds import explain_other_tree
from mlbench.submission.tree import ResultEntry, entries_of
from mlbench.system.documents import inside


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryCheck:
    """A result with its verdict."""

    entry: ResultEntry
    result: ResultRecord | None
    """None where its log cannot be read."""
    scores: Mapping[str, float]
    findings: Sequence[TreeFinding]
    """Those that it is lost by, wherever in the tree they are."""
    is_accepted_officially: bool

    @property
    def is_accepted(self) -> bool:
        """Return whether nothing speaks against it."""
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCheck:
    """All that was found in a tree."""

    entries: Sequence[EntryCheck]
    findings: Sequence[TreeFinding]
    other_round: str = ""
    """Reason why nothing but the round was judged; empty: it is a tree of v4.1."""

    @property
    def is_accepted(self) -> bool:
        """Return whether nothing of the tree is refused."""
        return all(each.is_note for each in self.findings)

    @property
    def accepted(self) -> int:
        """Return how many results are accepted."""
        return sum(each.is_accepted for each in self.entries)

    @property
    def accepted_officially(self) -> int:
        """Return how many results the official checker counts."""
        return sum(each.is_accepted_officially for each in self.entries)


def check_tree(root: Path) -> TreeCheck:
    """Check every result of a tree. Nothing in the tree is changed, inferred or moved.

    Args:
        root: the folder that holds closed, open or network.

    Raises:
        UsageError: it is not such a tree, or a folder of it cannot be read.
    """
    with inside(root):
        return _check(root)


def _check(root: Path) -> TreeCheck:
    entries = entries_of(root)
    checks = {entry.path: check_result(entry) for entry in entries}
    if reason := explain_other_tree([entry for entry in entries if checks[entry.path].is_of_other_round], len(entries)):
        return _refuse_tree(entries, checks, reason)
    findings = [*check_root(root)]
    for submitter in submitters_of(root):
        findings += check_submitter(root, submitter)
    for system in {(each.submitter_folder, each.system): each for each in entries}.values():
        findings += check_system(system)
    for entry in entries:
        check = checks[entry.path]
        findings += [*check_measurements(entry), *check.findings]
        if check.sources:
            findings += check_compliance(check.sources)
    findings += check_scenarios(entries)
    return TreeCheck(entries=_join(entries, checks, findings), findings=findings)


def _refuse_tree(entries: Sequence[ResultEntry], checks: Mapping[str, ResultCheck], reason: str) -> TreeCheck:
    """Return the outcome for a tree of another round: what v4.1 asks of files and scenarios says nothing about it."""
    findings = [TreeFinding(rule="round", path=".", message=reason, loses="")]
    return TreeCheck(entries=_join(entries, checks, findings), findings=findings, other_round=reason)


def _join(
    entries: Sequence[ResultEntry], checks: Mapping[str, ResultCheck], findings: Sequence[TreeFinding]
) -> list[EntryCheck]:
    """Return each result with what it is lost by."""
    return [
        EntryCheck(
            entry=entry,
            result=checks[entry.path].result,
            scores=checks[entry.path].scores,
            findings=[each for each in findings if each.concerns(entry.path) and not each.is_note],
            is_accepted_officially=not any(each.is_refused_officially(entry.path) for each in findings),
        )
        for entry in entries
    ]
