"""The runs of compliance tests: the audited run once more, under the configuration of a test."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Protocol

from mlbench.contracts.power import NONE
from mlbench.discovery import Plugins
from mlbench.planning.repeats import chosen_by_measuring, request_of, settings_as_stored
from mlbench.planning.requests import ResolvedRequest, resolve_with
from mlbench.records.origin_record import AuditRecord
from mlbench.records.run_record import RunRecord
from mlbench.records.store.reading import read_all
from mlbench.settings.layers import Setting
from mlbench.submission.auditing.plan import AuditPlan, PlannedTest

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
