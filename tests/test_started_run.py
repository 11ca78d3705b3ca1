"""What is known of a run before it is measured, in its record."""

from dataclasses import replace

import pytest

from mlbench.discovery import Plugins
from mlbench.execution.failures import Failure, FailureKind
from mlbench.requests import RunRequest, resolve
from mlbench.started_run import StartedRun


@pytest.fixture
def plugins(monkeypatch):
    """The installed plugins, of which ``null`` says that it runs on a library nobody else knows."""
    plugins = Plugins.discover()
    backend = type(plugins.backend("null"))
    probe = backend.probe
    monkeypatch.setattr(backend, "probe", lambda self: replace(probe(self), versions={"acme-runtime": "3.6.1"}))
    return plugins


def test_a_record_has_the_versions_of_the_libraries_that_its_backend_names(plugins, tmp_path):
    request = RunRequest(workload="resnet50", backend="null", scenario="Offline", results=tmp_path)
    started = StartedRun.now(resolve(request, plugins), plugins)
    crash = Failure(kind=FailureKind.CRASH, message="SIGSEGV", stage="warm-up", log_tail="")
    record = started.record(crash, tmp_path / "log.txt", {})
    for environment in (started.environment, record.environment):  # before the run and after it
        assert environment.libraries["acme-runtime"] == "3.6.1"
    assert "numpy" in record.environment.libraries
