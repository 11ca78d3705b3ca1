"""The runs of compliance tests: the audited run once more, under the configuration of a test."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from mlbench.auditing.plan import AuditPlan, PlannedTest
from mlbench.contracts.graph import Precision
from mlbench.contracts.power import NONE
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import Plugins
from mlbench.records.reading import read_all
from mlbench.records.run_record import AuditRecord, RunRecord
from mlbench.rules.tiers import Tier
from mlbench.runner import ResolvedRequest, RunRequest, resolve
from mlbench.tuning import Setting, Settings

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
    record = make(request_of(plan, planned.test, plugins), planned.test, planned.seconds)
    return plan.place / record.run_id


def request_of(plan: AuditPlan, test: str, plugins: Plugins) -> ResolvedRequest:
    """Return the request of a test: that of the audited run, with what it chose by measuring settled.

    Raises:
        MlbenchError: its backend cannot run here.
    """
    record = plan.record
    request = RunRequest(
        workload=record.workload,
        backend=record.backend,
        scenario=record.scenario,
        profile=Profile(record.profile),
        tier=Tier(record.tier),
        weights=Weights(record.weights),
        precision=Precision(record.precision),
        wants_accuracy=False,
        power=NONE,
        results=plan.place,
        tag=f"audit-{test}",
        repeat=1 + sum(bool(each.audit and each.audit.test == test) for each in read_all(plan.stored)[0]),
    )
    by_key = {key: Setting(each.value, each.layer) for key, each in record.settings.items()}
    by_key |= {key: Setting(value, _LAYER) for key, value in _measured_settings(record).items()}
    audit = AuditRecord.model_validate({"test": test, "of": record.run_id})
    return dataclasses.replace(
        resolve(request, plugins),
        settings=Settings(by_key),
        audit=audit,
    )


def _measured_settings(record: RunRecord) -> Mapping[str, float]:
    """Return what the audited run left to itself and chose: number of instances, batch, rate."""
    plain = {key: each.value for key, each in record.settings.items()}
    found: dict[str, float] = {}
    if plain.get("execution.instances") == "auto" and record.engine.instances:
        found["execution.instances"] = record.engine.instances
    if plain.get("execution.batch") == "auto" and plain.get("execution.batching") != "inline" and record.engine.batch:
        found["execution.batch"] = record.engine.batch
    rate_per_s = record.load.get("target_qps")
    if record.scenario_facts.sends_rate and not plain.get("load.target_qps") and isinstance(rate_per_s, int | float):
        found["load.target_qps"] = rate_per_s
    return found
