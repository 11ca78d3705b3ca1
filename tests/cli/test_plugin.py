"""A backend's plugin, begun from nothing: it is written, installed, checked, and shows how that went."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest
from invoking import invoke

from mlbench.conformance.kit import CHECKS_OF_ENGINES, CHECKS_OF_GRAPHS

NUMBER_OF_CHECKS = len(CHECKS_OF_ENGINES) + len(CHECKS_OF_GRAPHS)


def plugin(*arguments):
    return invoke("plugin", *arguments)


def test_a_new_backend_is_a_package_with_its_test_and_nothing_else(tmp_path):
    done = plugin("new", "my-npu", "--into", tmp_path)
    assert done.exit_code == 0
    (folder,) = tmp_path.iterdir()
    assert folder.name == "mlbench_my_npu"
    files = ["README.md", "mlbench_my_npu.py", "pyproject.toml", "test_mlbench_my_npu.py"]
    assert sorted(file.name for file in folder.iterdir()) == files
    assert done.stdout.splitlines()[1:] == [f"  pip install -e {folder}", "  mlbench plugin check my-npu"]


def test_new_packages_follow_the_style_of_the_built_in_ones(tmp_path):
    pytest.importorskip("ruff")
    plugin("new", "my-npu", "--into", tmp_path)
    plugin("new", "my-llm", "--engine", "--into", tmp_path)
    (tmp_path / "ruff.toml").write_text('line-length = 120\nlint.select = ["E", "F", "B", "UP", "RUF"]\n')
    for command in (["check"], ["format", "--check"]):
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *command, tmp_path], capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("My", "'My' cannot be the name of a backend."),
        ("2x", "'2x' cannot be the name of a backend."),
        ("my npu", "'my npu' cannot be the name of a backend."),
        ("a/b", "'a/b' cannot be the name of a backend."),
        ("", "'' cannot be the name of a backend."),
        ("graph", "'graph' would make a class Graph, which mlbench has."),
        ("none", "'none' would make a class None, which Python has."),
        ("pytorch", "pytorch (mlbench-inference) already has a backend 'pytorch'."),
        ("bert", "a module mlbench_bert is installed."),
    ],
)
def test_a_name_that_cannot_be_a_backends_is_refused_in_one_line(tmp_path, name, told):
    done = plugin("new", name, "--into", tmp_path)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"Error: {told}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mlbench_npu").mkdir()
    (tmp_path / "mlbench_npu" / "notes").write_text("mine")
    done = plugin("new", "npu", "--into", tmp_path)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "mlbench_npu exists." in done.stderr
    assert [file.name for file in (tmp_path / "mlbench_npu").iterdir()] == ["notes"]
    assert [file.name for file in tmp_path.iterdir()] == ["mlbench_npu"]


@pytest.fixture(scope="module")
def installed(tmp_path_factory, pip_install):
    """Return a folder in which a new package is installed, and nothing else."""
    pytest.importorskip("onnxscript")
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    assert plugin("new", "my-npu", "--into", source).exit_code == 0
    pip_install(source / "mlbench_my_npu", target)
    return target


@pytest.mark.thorough("kit")
def test_a_new_backend_is_installed_and_passes_the_kit_and_its_badge_says_so(installed, tmp_path):
    arguments = ["plugin", "check", "my-npu", "--set", "backend.verbose=0", "--badge", "my.svg"]
    script = f"from mlbench.cli import main; main({arguments})"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[:2] == ["entry point  my-npu (mlbench-my-npu)", "options      backend.verbose=0"]
    assert lines[-2:] == [
        f"my-npu: {NUMBER_OF_CHECKS} of {NUMBER_OF_CHECKS} checks passed.",
        "badge: my.svg",
    ]
    badge = ET.parse(tmp_path / "my.svg").getroot()
    message = f"{NUMBER_OF_CHECKS} of {NUMBER_OF_CHECKS}, fp32"
    assert [text.text for text in badge.iter("{http://www.w3.org/2000/svg}text")] == ["mlbench conformance", message]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nul"], "unknown backend 'nul'. Did you mean 'null'?"),
        (["null", "--precision", "int8"], "null does not offer int8."),
        (["null", "--set", "backend.dely_ms=1"], "unknown setting 'backend.dely_ms'"),
        (["null", "--badge", "/nowhere/badge.svg"], "file cannot be written: /nowhere/badge.svg"),
        (["null", "--only", "probes_once"], "unknown check 'probes_once'. Did you mean 'probes_at_once'?"),
        (["null", "--only", "probes_at_once", "--badge", "b.svg"], "a badge needs all checks."),
    ],
)
def test_a_check_that_cannot_run_is_reported_in_one_line_and_leaves_no_badge(tmp_path, monkeypatch, arguments, told):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    done = plugin("check", *arguments)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert told in done.stderr
    assert list(tmp_path.glob("*.svg")) == []


@pytest.mark.slow
def test_a_check_writes_what_it_is_told_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path / "cache"))
    assert plugin("check", "null", "--log", tmp_path / "here.log").exit_code == 0
    assert sorted(file.name for file in tmp_path.iterdir() if file.name != "cache") == ["here.log"]
    assert not list((tmp_path / "cache").glob("check/*"))


def test_a_log_that_cannot_be_written_is_refused_in_one_line():
    done = plugin("check", "null", "--log", "/nowhere/log")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "log of the check cannot be written: /nowhere/log: No such file or directory." in done.stderr


def test_some_checks_alone_are_run_and_printed_for_a_script(tmp_path, monkeypatch):
    monkeypatch.setenv("MLBENCH_CACHE", str(tmp_path))
    names = ["probes_at_once", "has_a_name_and_options"]
    done = plugin("check", "null", "--json", *(f"--only={name}" for name in names))
    assert done.exit_code == 0
    findings = json.loads(done.stdout)
    assert [(each["check"], each["passed"]) for each in findings] == [
        ("has_a_name_and_options", True),
        ("probes_at_once", True),
    ]
    assert done.stderr.startswith("entry point  null (mlbench-inference)\n")
