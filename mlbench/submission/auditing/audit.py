"""Puts a run to its compliance tests, and reports every test that was ever made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlbench.discovery import Plugins
from mlbench.records.run_record import read
from mlbench.submission.auditing.audit_runs import AuditRunMaker, make_test
from mlbench.submission.auditing.files import write_files
from mlbench.submission.auditing.plan import AuditPlan
from mlbench.submission.auditing.verdicts import AuditVerdict, judge_test


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The tests of a run, those of earlier audits first."""

    plan: AuditPlan
    earlier: tuple[AuditVerdict, ...]
    made: tuple[AuditVerdict, ...]

    @property
    def passed(self) -> bool:
        """Return whether all tests that were made now pass."""
        return bool(self.made) and all(each.passed for each in self.made)


def audit(plan: AuditPlan, plugins: Plugins, make: AuditRunMaker) -> Audit:
    """Make the tests of a plan one after another, each with its verdict and files.

    Raises:
        MlbenchError: a test cannot be made; those before it are kept.
    """
    earlier = tuple(judge_stored(plan, plugins))
    made = []
    for planned in plan.tests:
        verdict = judge_test(plan, make_test(plan, planned, plugins, make), plugins)
        write_files(verdict)
        made.append(verdict)
    return Audit(plan=plan, earlier=earlier, made=tuple(made))


def judge_stored(plan: AuditPlan, plugins: Plugins) -> Iterator[AuditVerdict]:
    """Yield the verdicts on tests that were made before, from their logs, whichever tests are planned now.

    Raises:
        DataError: a record or a log is missing or corrupt.
    """
    for folder in plan.stored:
        found = read(folder).audit
        if found and found.of == plan.record.run_id:
            yield judge_test(plan, folder, plugins)
