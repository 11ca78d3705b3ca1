"""Runs with all that a report shows."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

RECORDS = Path(__file__).parents[1] / "data" / "records"
"""Records that real runs stored."""

PERCENTILES_NS = {
    "50.00_percentile": 2_000_000,
    "90.00_percentile": 5_000_000,
    "99.00_percentile": 40_000_000,
    "99.90_percentile": 90_000_000,
}
RULE = {"unit": "", "passed": True, "fix": "", "source": "mlperf.conf", "kind": "performance", "required": True}


@pytest.fixture
def a_server_run(a_run):
    """Return a Server run of 500 samples/s, with changes; ``number`` tells runs apart and sets them a day apart."""

    def record(number=0, value=500.0, **changes):
        result = {
            "value": value,
            "unit": "samples/s",
            "higher_is_better": True,
            "latency_ns": {"min_latency": 900_000, **{f"{key}_latency": ns for key, ns in PERCENTILES_NS.items()}},
            "counts": {"queries": 1000},
        }
        fields = {
            "run_id": f"run-{number:04d}",
            "created": datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=number),
            "scenario": "Server",
            "result": result,
            "settings": {},
            "limits": {"server_latency_ms": 50},
            "engine": {
                "batch": 8,
                "samples": 90,
                "padding_samples": 10,
                "batches_by_size": {"1": 10, "2": 5, "8": 10},
                "sweep_samples_per_s": {"1": 100.0, "8": 400.0},
            },
            "samples": {"issued": 1000},
            "overhead_ns_per_sample": 20_000,
        }
        return a_run(**(fields | changes))

    return record


@pytest.fixture
def a_late_run(a_server_run):
    """Return a Server run over its latency limit, with changes."""

    def record(**changes):
        late = {"rule": "latency_limit", "measured": 70_000_000, "limit": 50_000_000, "unit": "ns", "passed": False}
        rules = [{**RULE, **late, "fix": "Lower load.target_qps."}]
        verdict = {"rules": rules, "not_applied": {}, "is_valid": False, "is_accurate": True, "is_conformant": False}
        return a_server_run(verdict=verdict, **changes)

    return record


@pytest.fixture
def a_token_run(a_server_run):
    """Return a Server run of a language workload: times of tokens, and what a real engine counted."""
    first = {f"first_token_{key}_latency": 10 * ns for key, ns in PERCENTILES_NS.items()}
    per_token = {f"time_per_output_token_{key}": ns for key, ns in PERCENTILES_NS.items()}
    result = {
        "value": 1234.5,
        "unit": "tokens/s",
        "higher_is_better": True,
        "latency_ns": {**first, **per_token, "time_to_output_token_min": 1_500_000},
        "counts": {"queries": 1000},
    }
    engine = json.loads((RECORDS / "gptj-onnxruntime-Server.json").read_text())["engine"]
    limits = {"server_latency_ms": 0, "ttft_ms": 2000, "tpot_ms": 200}
    return a_server_run(workload="llama2-70b", result=result, engine=engine, limits=limits)


@pytest.fixture
def imported():
    """Return what a record says of the tree that its run comes from."""
    return {
        "path": "closed/Acme/results/anvil_8/resnet50/Offline",
        "log_sha256": "0" * 64,
        "division": "closed",
        "submitter": "Acme",
        "system": "anvil_8",
        "variant": "99",
        "description": {},
    }
