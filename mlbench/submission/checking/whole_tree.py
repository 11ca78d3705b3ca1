"""Every result of a tree with its verdict: mlbench's, and the official checker's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.records.run_record import ResultRecord
from mlbench.rules.official import Round
from mlbench.submission.checking.compliance import check_compliance
from mlbench.submission.checking.descriptions import check_system
from mlbench.submission.checking.findings import TreeFinding
from mlbench.submission.checking.folders import check_root, check_submitter, submitters_of
from mlbench.submission.checking.implementations import check_measurements
from mlbench.submission.checking.required import check_scenarios
from mlbench.submission.checking.results import ROUND, ResultCheck, check_result
from mlbench.submission.endpoints import explain_endpoints
from mlbench.submission.rounds import entries_by_round, explain_other_tree, usual_round
from mlbench.submission.tree import ResultEntry
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
    round: Round
    """That of most results, by which files and scenarios are judged."""
    other_round: str = ""
    """Reason why nothing but the round was judged; empty: the rules of the round are here."""

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


def check_tree(root: Path, of: Round | None = None) -> TreeCheck:
    """Check every result of a tree. Nothing in the tree is changed or moved.

    Args:
        root: the folder that holds closed, open or network.
        of: the round that it shall be of; None: that of most of its logs.

    Raises:
        UsageError: it is not such a tree, or a folder of it cannot be read.
    """
    with inside(root):
        return _check(root, of)


def _check(root: Path, asked: Round | None) -> TreeCheck:
    found = entries_by_round(root, asked)
    of = asked or usual_round([entry.round.name for entry in found])
    entries = [entry for entry in found if not explain_endpoints(entry)]
    checks = {entry.path: check_result(entry) for entry in entries}
    if reason := explain_other_tree([entry for entry in entries if checks[entry.path].is_of_other_round], len(entries)):
        return _refuse_tree(entries, checks, reason, of)
    findings = [*check_root(root, of), *_left_out(found), *_of_other_rounds(entries, of)]
    for submitter in submitters_of(root):
        findings += check_submitter(root, submitter, of)
    for system in {(each.submitter_folder, each.system): each for each in entries}.values():
        findings += check_system(system)
    for entry in entries:
        check = checks[entry.path]
        findings += [*check_measurements(entry), *check.findings]
        if check.sources:
            findings += check_compliance(check.sources)
    findings += check_scenarios(found)
    return TreeCheck(entries=_join(entries, checks, findings), findings=findings, round=of)


def _left_out(entries: Sequence[ResultEntry]) -> Iterator[TreeFinding]:
    """Yield the results that another tool than LoadGen measured, which are not judged."""
    for entry in entries:
        if reason := explain_endpoints(entry):
            yield TreeFinding(rule="endpoints", path=entry.path, message=reason, loses=entry.path).as_note()


def _of_other_rounds(entries: Sequence[ResultEntry], of: Round) -> Iterator[TreeFinding]:
    """Yield the results whose logs are of another round than the tree."""
    for entry in entries:
        if entry.round is not of:
            message = f"its logs are of round {entry.round} by their seeds, and the tree is of {of}."
            yield TreeFinding(rule=ROUND, path=entry.path, message=message, loses=entry.path)


def _refuse_tree(
    entries: Sequence[ResultEntry], checks: Mapping[str, ResultCheck], reason: str, of: Round
) -> TreeCheck:
    """Return the outcome for a tree of another round: what ours ask of files and scenarios says nothing about it."""
    findings = [TreeFinding(rule=ROUND, path=".", message=reason, loses="")]
    return TreeCheck(entries=_join(entries, checks, findings), findings=findings, other_round=reason, round=of)


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
