"""Runs with all that a report shows: records that real runs stored (tests/data/records), with changes by name."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mlbench.records.run_record import RunRecord

RECORDS = Path(__file__).parents[1] / "data" / "records"


@pytest.fixture(scope="session")
def stored_run():
    """Return a stored run by the name of its file, with changes; ``number`` tells runs apart and sets them a day apart.

    The settings are the defaults, so that no run differs from another by what it was told here.
    """

    def record(name, number=0, value=None, **changes):
        fields = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
        fields |= {
            "run_id": f"run-{number:04d}",
            "created": datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=number),
            "settings": {},
        }
        if value is not None:
            fields["result"]["value"] = value
        return RunRecord.model_validate(fields | changes)

    return record


@pytest.fixture
def a_server_run(stored_run):
    """Return a Server run of ResNet-50, with changes; with another ``scenario`` the run that was made in that one."""

    def record(number=0, value=None, *, scenario="Server", **changes):
        return stored_run(f"resnet50-pytorch-{scenario}", number, value, **changes)

    return record


@pytest.fixture
def a_late_run(stored_run):
    """Return a Server run over its latency limit, with changes."""

    def record(*, scenario="Server", **changes):
        facts = stored_run(f"resnet50-pytorch-{scenario}").scenario_facts
        return stored_run("resnet50-pytorch-Server-late", scenario=scenario, scenario_facts=facts, **changes)

    return record


@pytest.fixture
def a_token_run(stored_run):
    """Return a Server run of a language workload, on an engine that counts tokens."""
    return stored_run("llama2-70b-onnxruntime-Server")


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


BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not BROWSER:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield chromium
        chromium.close()
