"""Kinds of runs: those of the same request under the same conditions."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from mlbench.records.run_record import RunRecord

_REQUEST = ("workload", "backend", "scenario", "profile", "tier", "weights", "precision")
ENDS_INVALID_RUNS = ("load.end_at_late_share",)
"""Settings that only end runs which have become INVALID."""
_ACCELERATOR = {"name", "max_clock_mhz", "power_limit_w"}


def kind_of(record: RunRecord) -> str:
    """Return a hash of all that a comparison demands to be the same, so that one record of a kind speaks for all.

    What changes from run to run is not in it, nor are versions of libraries and commits, which may differ.
    """
    environment = record.environment
    facts: Mapping[str, object] = {
        **{name: getattr(record, name) for name in _REQUEST},
        "variant": record.imported.variant if record.imported else None,
        "settings": {
            key: each.model_dump(mode="json")
            for key, each in record.settings.items()
            if each.layer != "default" and key not in ENDS_INVALID_RUNS
        },
        "fingerprints": record.fingerprints,
        "seeds": record.seeds.model_dump() if record.seeds else None,
        "loadgen": record.loadgen_version,
        "traffic": record.scenario_facts.model_dump(mode="json"),
        "machine": environment.machine,
        "processor": [environment.processor, environment.cpu.governor, environment.cpu.turbo],
        "quota": environment.allowance.cpu_quota,
        "accelerators": [each.model_dump(mode="json", include=_ACCELERATOR) for each in environment.accelerators],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
