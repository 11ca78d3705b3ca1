"""What a user can get wrong: one line that says what, and exit status 2. Nothing is left behind."""

import json
import os
import shutil
from pathlib import Path

import pytest
from invoking import invoke, refusal

from mlbench.cli import progress


@pytest.fixture
def mlbench(results, monkeypatch, tmp_path):
    """Run a command line with its results in a folder of this test."""
    monkeypatch.setenv("MLBENCH_RESULTS", str(results))
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "settings.toml"))
    day_s = 86_400.0  # a line a minute says how slow this machine is
    monkeypatch.setitem(progress.Progress.__init__.__kwdefaults__, "quiet_period_s", day_s)
    return invoke


def assert_refused(result, told, results):
    assert told in refusal(result)
    assert not results.exists() or not list(results.iterdir())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "resnet5"], "unknown workload 'resnet5'. Did you mean 'resnet50'?"),
        (["run", "bert", "--backend", "pytroch"], "unknown backend 'pytroch'. Did you mean 'pytorch'?"),
        (["run", "bert", "--scenario", "Servr"], "unknown scenario 'Servr'. Did you mean 'Server'?"),
        (["run", "bert", "--backend", "null", "--precision", "int8"], "null does not offer precision int8"),
        (["run", "bert", "--precision", "fp12"], "no backend offers fp12 here."),
        (["run", "bert", "--precision", "FP 12"], "'FP 12' is not the name of a precision"),
        (["run", "bert", "--tag", "x" * 201], "is longer than 200 characters, or not plain text"),
        (["run", "bert", "--set", "load.min_duration=5"], "Did you mean 'load.min_duration_ms'?"),
        (["run", "bert", "--set", "load.target_qps=fast"], "load.target_qps is 'fast' (command line)"),
        (["run", "bert", "--set", "load.target_qps"], "'load.target_qps' is not KEY=VALUE"),
        (["run", "bert", "--set", "load.target_qps=-3"], "load.target_qps is '-3' (command line): Input should be gr"),
        (["run", "bert", "--set", "load.target_qps=nan"], "load.target_qps is 'nan' (command line): Input should be"),
        (["run", "bert", "--set", "load.min_query_count=-1"], "load.min_query_count is '-1' (command line): Input sh"),
        (["run", "bert", "--set", "load.stall_timeout_s=0"], "load.stall_timeout_s is '0' (command line): Input shou"),
        (["run", "bert", "--set", "execution.max_wait_us=-5"], "execution.max_wait_us is '-5' (command line): Input s"),
        (["run", "bert", "--backend", "pytorch", "--set", "backend.threads=-3"], "backend.threads is '-3'"),
        (["run", "bert", "--backend", "onnxruntime", "--set", "backend.threads=-3"], "backend.threads is '-3'"),
        (["run", "bert", "--backend", "onnxruntime", "--set", "backend.device=-1"], "backend.device is '-1'"),
        (["run", "gptj", "--backend", "endpoint", "--set", "backend.connections=0"], "backend.connections is '0'"),
        (["run", "gptj", "--backend", "endpoint", "--set", "backend.retries=-1"], "backend.retries is '-1'"),
        (["run", "gptj", "--backend", "endpoint", "--set", "backend.timeout_s=0"], "backend.timeout_s is '0'"),
        (["run", "gptj", "--backend", "endpoint", "--set", "backend.prompt=chat"], "should be 'tokens' or 'text'"),
        (["run", "bert", "--tier", "quick"], "'quick' is not one of"),
        (["rum", "bert"], "unknown command 'rum'. Did you mean 'run'?"),
        (["settings", "bert", "pytroch"], "unknown backend 'pytroch'"),
        (["show", "20261121"], "no run '20261121'"),
        (["table"], "no runs in"),
        (["verify", "20261121"], "no run '20261121'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused_in_one_line(mlbench, results, arguments, told):
    assert_refused(mlbench(*arguments), told, results)


def test_a_results_folder_that_cannot_be_made_is_refused(mlbench, tmp_path):
    (tmp_path / "file").write_text("in the way")
    result = mlbench("run", "bert", "--backend", "null", "--results", str(tmp_path / "file"))
    assert_refused(result, "results folder cannot be written", tmp_path / "none")


def test_a_broken_settings_file_is_refused(mlbench, results, tmp_path):
    (tmp_path / "settings.toml").write_text("[[settings]]\nload.speed = 9\n")
    assert_refused(mlbench("run", "bert", "--backend", "null"), "unknown setting 'load.speed' (system", results)


def test_a_plugin_that_raises_at_import_is_refused_by_name_and_affects_no_other(
    mlbench, results, tmp_path, monkeypatch
):
    (tmp_path / "fast_plugin.py").write_text("raise OSError('libfast.so.3 is missing')")
    info = tmp_path / "fast-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mlbench]\nfast = fast_plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert_refused(mlbench("run", "bert", "--backend", "fast"), "libfast.so.3 is missing", results)
    listed = mlbench("list")
    assert listed.exit_code == 0
    assert "broken: OSError: libfast.so.3 is missing (from fast)" in listed.stdout
    assert "pytorch" in listed.stdout


def test_what_is_wrong_with_all_of_several_runs_is_said_alone(mlbench, results):
    scenarios = ["--scenario", "Offline", "--scenario", "Server"]
    where = ["--set", "workload.data=/nowhere", "--set", "workload.weights=/nowhere"]
    result = mlbench("run", "resnet50", "--backend", "null", *scenarios, "--profile", "full", *where)
    assert_refused(result, "label list not found: /nowhere/val_map.txt", results)


@pytest.mark.thorough("command line")
def test_what_several_runs_will_take_is_said_before_the_first_one_ends(mlbench):
    once = ("run", "resnet50", "--backend", "null", "--set", "backend.service_ms=2", "--scenario", "Offline")
    result = mlbench(*once, "--no-accuracy", "--repeat", "2")
    first, second, third, *_ = result.stderr.splitlines()
    assert first.startswith("2 runs to make; ")
    assert second.startswith("resnet50 null Offline fp32: ")
    assert third.startswith("resnet50 null Offline fp32: ")


def test_missing_official_files_are_refused(mlbench, results):
    result = mlbench("run", "resnet50", "--backend", "null", "--scenario", "Offline", "--profile", "full")
    assert_refused(result, "--set workload.weights=PATH", results)


def test_a_missing_dataset_is_refused_by_its_path(mlbench, results, tmp_path):
    weights = tmp_path / "resnet50-19c8e357.pth"
    weights.write_bytes(b"not these")
    options = [f"workload.data={tmp_path / 'imagenet'}", f"workload.weights={weights}"]
    arguments = [each for option in options for each in ("--set", option)]
    result = mlbench("run", "resnet50", "--backend", "null", "--scenario", "Offline", "--profile", "full", *arguments)
    assert_refused(result, "imagenet", results)


@pytest.mark.thorough("workloads")
def test_corrupt_weights_are_refused_by_their_checksum(mlbench, results, tmp_path, monkeypatch):
    package = Path(__import__("mlbench_dlrm_v2").__file__).parent  # its run imports least
    shutil.copytree(package, tmp_path / "copy" / package.name)
    weights = tmp_path / "copy" / package.name / "mini" / "weights.safetensors"
    damaged = bytearray(weights.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    weights.write_bytes(damaged)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "copy"))  # the run's own process finds this copy first
    result = mlbench("run", "dlrm-v2", "--backend", "pytorch", "--scenario", "Offline")
    assert_refused(result, "corrupt or another version", results)


@pytest.fixture
def stored_run(one_run, results):
    """A copy of it, for a test to damage."""
    return Path(shutil.copytree(one_run, results / one_run.name))


def test_a_stored_run_can_be_shown_and_verified(mlbench, stored_run):
    folder = stored_run
    shown = mlbench("show", folder.name)
    assert "MISSES" in shown.stdout
    assert "replies_sound" in shown.stdout
    verified = mlbench("verify", folder.name)
    assert verified.exit_code == 0
    assert "recorded values" in verified.stdout
    record = json.loads((folder / "record.json").read_text())
    record["result"]["value"] /= 2
    (folder / "record.json").write_text(json.dumps(record))
    faked = mlbench("verify", folder.name)
    assert faked.exit_code == 1
    assert "result.value: the record says" in faked.stdout


def test_a_truncated_log_is_refused(mlbench, stored_run):
    folder = stored_run
    log = folder / "performance" / "mlperf_log_detail.txt"
    log.write_text(log.read_text()[:2000].rsplit("\n", 1)[0])
    assert "truncated LoadGen log" in refusal(mlbench("verify", folder.name))


def test_a_run_folder_of_a_newer_format_is_refused(mlbench, stored_run):
    folder = stored_run
    record = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps({**record, "format": 7}))
    assert "run folder of format 7; this mlbench reads up to 4" in refusal(mlbench("show", folder.name))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_results_folder_is_refused(mlbench, tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    result = mlbench("run", "bert", "--backend", "null", "--results", str(folder))
    assert_refused(result, "results folder cannot be written", folder)
