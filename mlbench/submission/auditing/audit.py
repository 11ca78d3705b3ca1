"""Puts a run to its compliance tests, and reports every test that was ever made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mlbench.contracts.power import NONE
from mlbench.discovery import Plugins
from mlbench.planning.repeats import chosen_by_measuring, request_of, settings_as_stored
from mlbench.planning.requests import ResolvedRequest, resolve_with
from mlbench.records.origin_record import AuditRecord
from mlbench.records.run_record import RunRecord, read
from mlbench.records.store.reading import read_all
from mlbench.settings.layers import Setting
from mlbench.submission.auditing.files import write_files
from mlbench.submission.auditing.plan import AuditPlan, PlannedTest
from mlbench.submission.auditing.verdicts import AuditVerdict, judge_test

_LAYER = "audit"
"""Where settings come from that the audited run chose by measuring, or that a test needs."""


class AuditRunMaker(Protocol):
    """Makes a run."""

    def __call__(self, request: ResolvedRequest, what: str, seconds: float) -> RunRecord:
        """Make a run that takes so long, about; ``what`` says what it is for."""


def make_test(plan: AuditPlan, planned: PlannedTest, plugins: Plugins, make: AuditRunMaker) -> Path:
    """Run a test once more, whatever tests were made before, and return its run folder.

    Raises:
        MlbenchError: the run cannot be made here.
    """
    record = make(request_of_test(plan, planned.test, plugins), planned.test, planned.seconds)
    return plan.place / record.run_id


def request_of_test(plan: AuditPlan, test: str, plugins: Plugins) -> ResolvedRequest:
    """Return the request of a test: that of the audited run, with what it chose by measuring settled.

    Raises:
        MlbenchError: its backend cannot run here, or one of its settings no longer exists.
    """
    record = plan.record
    request = dataclasses.replace(
        request_of(record),
        wants_accuracy=False,
        power=NONE,
        results=plan.place,
        network=plan.network,
        tag=f"audit-{test}",
        repeat=1 + sum(bool(each.audit and each.audit.test == test) for each in read_all(plan.stored)[0]),
    )
    chosen = {key: Setting(value, _LAYER) for key, value in chosen_by_measuring(record).items()}
    settings = settings_as_stored(record, plugins, plan.word, chosen)
    audit = AuditRecord.model_validate({"test": test, "of": record.run_id})
    return dataclasses.replace(resolve_with(settings, request, plugins), audit=audit)


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
