"""Rules about a result's accuracy folder, apart from its scores.

A submission without the hash of its whole accuracy log, or with an error in the log of the accuracy test, has no
accuracy that counts, whatever was scored. Source: submission checker v4.1, ``check_accuracy_dir``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contracts.metric import Target
from mlbench.loadgen.logs import read_damaged_detail
from mlbench.rules.facts import RuleKind, RuleResult
from mlbench.submission.scores import PrintedScores, read_scores
from mlbench.submission.tree import ACCURACY, ACCURACY_LOG, DETAIL, SUMMARY
from mlbench.system.documents import is_file

_SOURCE = "submission checker v4.1, check_accuracy_dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyTest:
    """The files and errors of a scored accuracy test."""

    printed: PrintedScores
    missing: Sequence[str]
    """Required files that are missing."""
    errors: Sequence[str]
    """Messages of its detail log's error lines."""

    def rules(self) -> Iterator[RuleResult]:
        """Yield the rules about everything but the scores."""
        yield _rule(
            "accuracy_files",
            len(self.missing),
            limit=0,
            unit="missing",
            fix=f"Add to the accuracy folder: {', '.join(self.missing)}.",
        )
        yield _rule(
            "accuracy_log_errors",
            None if DETAIL in self.missing else len(self.errors),
            limit=0,
            unit="errors",
            fix=f"Run the accuracy test again; LoadGen's first error: {next(iter(self.errors), 'its log is missing')}",
        )
        yield _rule(
            "accuracy_log_hash",
            self.printed.log_hash or None,
            limit="64 hexadecimal digits",
            unit="",
            fix=f"Add hash=<SHA-256 of the whole {ACCURACY_LOG}> as a line of {ACCURACY}.",
            passed=bool(self.printed.log_hash),
        )


def read_accuracy_test(folder: Path, targets: Sequence[Target]) -> AccuracyTest:
    """Return what a result's accuracy folder holds.

    Raises:
        DataError: there are no scores in it.
    """
    printed = read_scores(folder / ACCURACY, targets)
    missing = [name for name in (SUMMARY, DETAIL, ACCURACY_LOG) if not is_file(folder / name)]
    errors = () if DETAIL in missing else read_damaged_detail(folder / DETAIL).errors
    return AccuracyTest(printed=printed, missing=missing, errors=errors)


def _rule(  # noqa: PLR0913 - a rule has as many facts
    name: str, measured: int | str | None, *, limit: int | str, unit: str, fix: str, passed: bool | None = None
) -> RuleResult:
    return RuleResult(
        rule=name,
        measured=measured,
        limit=limit,
        unit=unit,
        passed=measured == limit if passed is None else passed,
        fix=fix,
        source=_SOURCE,
        kind=RuleKind.ACCURACY,
    )
