"""Rules about a result's accuracy folder, apart from its scores.

A submission without the hash of its whole accuracy log, or with an error in the log of the accuracy test, has no
accuracy that counts, whatever was scored. Source: submission checkers v4.1 to v6.1, ``check_accuracy_dir``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mlbench.contracts.metric import Target
from mlbench.loadgen.logs import read_damaged_detail
from mlbench.rules.facts import RuleKind, RuleResult
from mlbench.rules.official import Round
from mlbench.submission.scores import PrintedScores, read_scores
from mlbench.submission.tree import ACCURACY, ACCURACY_LOG, DETAIL, SUMMARY
from mlbench.system.documents import is_file

_COVERED = ("effective_accuracy_sample_count", "qsl_reported_total_count")
"""Where a log says how many samples its accuracy test covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyTest:
    """The files and errors of a scored accuracy test."""

    round: Round
    printed: PrintedScores
    missing: Sequence[str]
    """Required files that are missing."""
    errors: Sequence[str]
    """Messages of its detail log's error lines."""
    samples: int | None = None
    """How many samples its log says that it covers; None: it does not say."""
    wanted_samples: int | None = None
    """How many it must cover; None: the round does not ask."""

    def rules(self) -> Iterator[RuleResult]:
        """Yield the rules about everything but the scores."""
        if self.wanted_samples is not None and DETAIL not in self.missing:
            yield self._rule(
                "accuracy_samples",
                self.samples,
                limit=self.wanted_samples,
                unit="samples",
                fix="Run the accuracy test over the whole data set.",
            )
        yield self._rule(
            "accuracy_files",
            len(self.missing),
            limit=0,
            unit="missing",
            fix=f"Add to the accuracy folder: {', '.join(self.missing)}.",
        )
        yield self._rule(
            "accuracy_log_errors",
            None if DETAIL in self.missing else len(self.errors),
            limit=0,
            unit="errors",
            fix=f"Run the accuracy test again; LoadGen's first error: {next(iter(self.errors), 'its log is missing')}",
        )
        yield self._rule(
            "accuracy_log_hash",
            self.printed.log_hash or None,
            limit="64 hexadecimal digits",
            unit="",
            fix=f"Add hash=<SHA-256 of the whole {ACCURACY_LOG}> as a line of {ACCURACY}.",
            passed=bool(self.printed.log_hash),
        )

    def _rule(  # noqa: PLR0913 - a rule has as many facts
        self,
        name: str,
        measured: int | str | None,
        *,
        limit: int | str,
        unit: str,
        fix: str,
        passed: bool | None = None,
    ) -> RuleResult:
        return RuleResult(
            rule=name,
            measured=measured,
            limit=limit,
            unit=unit,
            passed=measured == limit if passed is None else passed,
            fix=fix,
            source=f"submission checker {self.round}, check_accuracy_dir",
            kind=RuleKind.ACCURACY,
        )


def read_accuracy_test(folder: Path, targets: Sequence[Target], of: Round, wanted_samples: int) -> AccuracyTest:
    """Return what a result's accuracy folder holds.

    Args:
        folder: with the scores and LoadGen's logs.
        targets: of the result's accuracy variant.
        of: the round.
        wanted_samples: how many samples the round's accuracy test covers.

    Raises:
        DataError: there are no scores in it.
    """
    printed = read_scores(folder / ACCURACY, targets, are_plain=of.checks.plain_scores)
    missing = [name for name in (SUMMARY, DETAIL, ACCURACY_LOG) if not is_file(folder / name)]
    if DETAIL in missing:
        return AccuracyTest(round=of, printed=printed, missing=missing, errors=())
    detail = read_damaged_detail(folder / DETAIL)
    counts = [detail.values.get(key) for key in _COVERED]
    return AccuracyTest(
        round=of,
        printed=printed,
        missing=missing,
        errors=detail.errors,
        samples=next((count for count in counts if isinstance(count, int)), None),
        wanted_samples=None if of.checks.keeps_own_scope else wanted_samples,
    )
