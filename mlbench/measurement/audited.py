"""The requirements on a run, and how they differ for a compliance test of another run."""

from __future__ import annotations

from mlbench.contracts.dataset import Dataset
from mlbench.contracts.model import Model
from mlbench.measurement.job import Job
from mlbench.rules.audit_config import AuditConfig, audit_config
from mlbench.rules.tiers import RunLimits, fit_to, limits_of, with_own_limits


def limits_of_job(job: Job, dataset: Dataset, model: Model) -> RunLimits:
    """Return the requirements on a job: by the rules as far as data and model can, by its own limits, as a test."""
    by_rules = limits_of(job.rules, job.workload, dataset, job.scenario, tier=job.tier, profile=job.variant.profile)
    limits, config = with_own_limits(fit_to(by_rules, dataset, model), job.load), _config_of(job)
    return config.limits(limits) if config else limits


def audit_text(job: Job) -> str:
    """Return the text of LoadGen's ``audit.config``; empty where a job is no test."""
    config = _config_of(job)
    return config.text if config else ""


def audited_keys(job: Job) -> frozenset[str]:
    """Return what LoadGen logs of the settings that a test's configuration replaces: ``requested_min_query_count``."""
    config = _config_of(job)
    keys = config.values if config else ()
    return frozenset("requested_min_duration_ms" if key == "min_duration" else f"requested_{key}" for key in keys)


def _config_of(job: Job) -> AuditConfig | None:
    return audit_config(job.spec.audit, job.rules.name, job.rules.round) if job.spec.audit else None
