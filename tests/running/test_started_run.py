"""What is known of a run before it is measured, in its record."""

import time
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from mlbench.discovery import Plugins
from mlbench.execution.processes.failures import Failure, FailureKind
from mlbench.planning.requests import RunRequest, resolve
from mlbench.records.environment import observe_environment
from mlbench.running import started_run
from mlbench.running.runner import run_benchmark
from mlbench.running.started_run import StartedRun


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


def test_what_the_fp32_network_needs_is_imported_before_the_fork_on_every_backend(plugins, tmp_path):
    """The judge's process does without."""
    request = RunRequest(workload="resnet50", backend="null", scenario="Offline", results=tmp_path)
    started = StartedRun.now(resolve(request, plugins), plugins)
    of_judge = started.modules_of_judge
    assert "torch" not in of_judge
    needed = ("torch", "torch._dynamo", "torchvision.models.resnet")
    assert started.modules_of_reference == (*of_judge[:-1], *needed, "mlbench_resnet50.mini_profile")
    assert started.modules == of_judge, "null needs no network"


def test_a_run_on_pytorch_shares_the_imports_of_its_reference(plugins, tmp_path):
    request = RunRequest(workload="resnet50", backend="pytorch", scenario="Offline", results=tmp_path)
    started = StartedRun.now(resolve(request, plugins), plugins)
    assert started.modules == started.modules_of_reference == started.modules_of_judge


def test_a_judge_shares_no_import_that_the_backend_alone_names(plugins, tmp_path, monkeypatch):
    monkeypatch.setattr(type(plugins.backend("pytorch")), "preload", ("torch", "acme_runtime"))
    request = RunRequest(workload="bert", backend="pytorch", scenario="Offline", results=tmp_path)
    started = StartedRun.now(resolve(request, plugins), plugins)
    assert "acme_runtime" in started.modules
    assert "acme_runtime" not in started.modules_of_judge
    assert started.modules_of_judge[-1] == "torch"


def test_runs_of_all_workloads_begin_with_the_imports_that_they_share(plugins, tmp_path):
    """Each fork server imports one module; what several begin with is imported once."""

    def modules_of(workload, scenario="Offline"):
        request = RunRequest(workload=workload, backend="pytorch", scenario=scenario, results=tmp_path)
        return StartedRun.now(resolve(request, plugins), plugins).modules

    resnet50, bert, diffusion, dlrm = map(modules_of, ("resnet50", "bert", "stable-diffusion-xl", "dlrm-v2"))
    assert resnet50[: resnet50.index("torchvision.models.resnet")] == (*dlrm, "torch._dynamo")
    assert bert == (*dlrm, "torch._dynamo", "transformers.modeling_utils")
    assert diffusion[: len(bert)] == bert


@pytest.mark.parametrize(("asked_ms", "is_counted"), [(1, False), (1999, False), (2000, True), (0, True)])
def test_no_processor_time_is_counted_where_the_run_cannot_be_valid(plugins, tmp_path, asked_ms, is_counted):
    """In tier smoke a test lasts two seconds or more; 0 stands for that."""
    settings = {"load.min_duration_ms": str(asked_ms)}
    asked = RunRequest(workload="resnet50", backend="pytorch", scenario="Offline", overrides=settings, results=tmp_path)
    started = StartedRun.now(resolve(asked, plugins), plugins)
    reason = f"a test of {asked_ms} ms is too short for a valid run, and no comparison counts another"
    assert started.no_processor_time == ("" if is_counted else reason)


def test_a_run_exports_each_model_once_that_later_runs_need_on_its_backend(plugins, tmp_path):
    def asked(workload, scenario, backend="null"):
        request = RunRequest(workload=workload, backend=backend, scenario=scenario, results=tmp_path)
        return resolve(request, plugins)

    later = [
        asked("resnet50", "Server"),
        asked("bert", "Offline"),
        asked("bert", "Server"),
        asked("gptj", "Offline"),
        asked("retinanet", "Offline", "pytorch"),
    ]
    started = StartedRun.now(asked("resnet50", "Offline"), plugins, later=later)
    assert [model.workload for model in started.job(tmp_path).later_models] == ["bert", "gptj"]


def test_a_slow_look_at_the_machine_counts_as_part_of_the_run(plugins, tmp_path, monkeypatch):
    def observe_slowly():
        time.sleep(0.2)
        return observe_environment()

    monkeypatch.setattr(started_run, "observe_environment", observe_slowly)
    request = RunRequest(workload="resnet50", backend="null", scenario="Offline", results=tmp_path)
    started = StartedRun.now(resolve(request, plugins), plugins)
    measured = datetime.now(UTC)
    crash = Failure(kind=FailureKind.CRASH, message="SIGSEGV", stage="warm-up", log_tail="")
    record = started.record(crash, tmp_path / "log.txt", {})
    assert record.duration_ns >= (measured - record.created).total_seconds() * 1e9


@pytest.mark.slow
def test_a_run_has_the_settings_that_its_request_was_resolved_with(tmp_path, monkeypatch):
    system = tmp_path / "system.toml"
    monkeypatch.setenv("MLBENCH_SETTINGS", str(system))
    system.write_text("[[settings]]\nbackend.delay_ms = 1.0\n")
    plugins = Plugins.discover()
    request = RunRequest(
        workload="resnet50",
        backend="null",
        scenario="SingleStream",
        wants_accuracy=False,
        overrides={"load.min_duration_ms": "50"},
        results=tmp_path / "results",
    )
    resolved = resolve(request, plugins)
    system.write_text("[[settings]]\nbackend.delay_ms = 2.0\n")
    record = run_benchmark(resolved, plugins)
    assert record.settings["backend.delay_ms"].value == 1.0
    assert record.settings["backend.delay_ms"].layer == f"system {system}"
