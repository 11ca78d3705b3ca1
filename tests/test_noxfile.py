"""What nox's sessions would do, from the commands that they give."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from mlbench.discovery import Plugins
from mlbench.planning.suite import read_suite, requests_of
from mlbench.records.machine.accelerators import Accelerator
from mlbench.records.machine.telemetry import DeviceTelemetryRecord
from mlbench.records.store.query import ask
from mlbench.settings.layers import fill_template

nox = pytest.importorskip("nox")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def noxfile():
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Session:
    """Writes commands down, and answers as a machine with two precisions would."""

    venv_backend = "venv"

    def __init__(self, *posargs):
        self.posargs, self.commands = list(posargs), []

    def install(self, *arguments, **_):
        self.commands.append(["pip", "install", *arguments])

    def run(self, *command, **_):
        self.commands.append(list(command))
        names = ("pytorch", "onnxruntime", "tensorrt")
        return json.dumps({"backends": [{"name": name, "precisions": ["fp32", "fp16"]} for name in names]})


@pytest.mark.parametrize("backend", ["pytorch", "onnxruntime"])
def test_the_gpu_session_sends_a_backend_to_the_gpu_that_would_be_content_with_the_cpu(noxfile, backend):
    session = Session(backend)
    noxfile.gpu.func(session)
    made = [command for command in session.commands if command[:2] in (["mlbench", "check"], ["mlbench", "run"])]
    assert len(made) == 4
    for command in made:
        name, value = command[command.index("--set") + 1].split("=")
        options = fill_template(Plugins.discover().backend(backend).options, "backend", {name: value})
        assert "cuda" in (getattr(options, "provider", ""), getattr(options, "device", ""))


def test_the_gpu_session_never_has_two_onnx_runtimes(noxfile):
    session = Session("tensorrt", "onnxruntime")
    noxfile.gpu.func(session)
    pip = [command for command in session.commands if "pip" in command and command[-1] != "uv"]
    both, removed, last = (" ".join(command) for command in pip)
    assert "[dev,tensorrt]" in both
    assert removed.endswith("pip uninstall -y onnxruntime")
    assert "[onnxruntime-gpu]" in last


def test_the_table_of_the_gpu_session_sets_each_run_beside_that_gpus_best_published_result(noxfile, a_run, tmp_path):
    session = Session()
    noxfile.gpu_session.func(session)
    (suite,) = (command[3] for command in session.commands if command[:3] == ["mlbench", "run", "--suite"])
    requests = requests_of(read_suite(ROOT / suite), Plugins.discover(), results=tmp_path)
    assert len(requests) == 12
    gpu = dict.fromkeys(Accelerator.model_fields) | {"name": "NVIDIA H200", "driver": "580"}
    device = dict.fromkeys(DeviceTelemetryRecord.model_fields) | {"device": "GPU 0", "sensor": "nvml", "readings": 3}
    device |= {"clock_mhz": 1755, "throttled": {"heat": 0.25, "power": 0.5}}
    changes = {
        "tag": requests[0].tag,
        "environment": {**a_run().environment.model_dump(mode="json"), "accelerators": [gpu]},
        "telemetry": {"seconds": 2, "processor_share": 0, "devices": [device]},
    }
    (tmp_path / "a").mkdir()
    (tmp_path / "a/record.json").write_text(a_run(run_id="a", **changes).text())
    answer = ask(tmp_path, session.commands[-1][2])
    (row,) = (dict(zip(answer.columns, row, strict=True)) for row in answer.rows)
    assert row["published_per_s"] == 768_235 / 8  # result 4.1-0021, eight GPUs
    assert row["share"] == row["samples_per_s"] / row["published_per_s"]
    assert (row["clock_mhz"], row["throttled"]) == (1755, 0.5)


class Running(Session):
    """Runs the commands."""

    def __init__(self, folder):
        super().__init__()
        self.cache_dir, self.warnings = folder, []

    def run(self, *command, env=None, **_):
        super().run(*command)
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        done = subprocess.run([sys.executable, "-m", *command], env={**own, **env}, check=False)
        if done.returncode:
            raise nox.command.CommandFailed(return_code=done.returncode)

    def warn(self, *words):
        self.warnings.append(words)


@pytest.mark.thorough("command line", but=["False"])
@pytest.mark.parametrize("fails_alone", [False, True])
def test_a_failed_test_is_run_once_more_by_itself(noxfile, tmp_path, fails_alone):
    """It says so if that passes, and fails if that fails; those that passed are left alone."""
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_both.py").write_text(
        "import os\n\n"
        "def test_good():\n    assert 'PYTEST_XDIST_WORKER' in os.environ\n\n"
        f"def test_bad():\n    assert 'PYTEST_XDIST_WORKER' not in os.environ and not {fails_alone}\n"
    )
    session = Running(tmp_path / "session")
    with pytest.raises(nox.command.CommandFailed) if fails_alone else nullcontext():
        noxfile.run_tests(session, os.fspath(tmp_path / "test_both.py"))
    assert len(session.commands) == 2
    assert [names for _, names in session.warnings] == ([] if fails_alone else ["test_both.py::test_bad"])


@pytest.mark.thorough("command line")
def test_many_failed_tests_are_not_run_once_more(noxfile, tmp_path):
    (tmp_path / "pytest.ini").touch()
    names = "import pytest\n\n@pytest.mark.parametrize('number', range(9))\n"
    (tmp_path / "test_bad.py").write_text(names + "def test_bad(number):\n    assert number < 0\n")
    with pytest.raises(nox.command.CommandFailed):
        noxfile.run_tests(session := Running(tmp_path / "session"), os.fspath(tmp_path / "test_bad.py"))
    assert len(session.commands) == 1


class Refusing(Session):
    """Reaches no index with uv, or only not PyTorch's."""

    def __init__(self, *, has_usual_index):
        super().__init__()
        self.has_usual_index = has_usual_index

    def run(self, *command, env=None, **more):
        if command[0] == "uv" and ("UV_TORCH_BACKEND" in env or not self.has_usual_index):
            raise nox.command.CommandFailed
        return super().run(*command, **more)


def test_the_lock_holds_for_what_uv_installs_and_for_what_it_builds_with(noxfile):
    noxfile.install(session := Session(), "dev")
    lock = str(noxfile.LOCK)
    held = ["--constraints", lock, "--build-constraints", lock]
    _, installed, weighed = session.commands
    assert installed == ["uv", "pip", "install", "--quiet", "--compile-bytecode", *held, "-e", ".[dev]"]
    assert weighed[:2] == ["python", "-c"]


def test_where_pytorchs_index_cannot_be_reached_the_usual_one_is_asked(noxfile):
    noxfile.install(session := Refusing(has_usual_index=True), "dev")
    assert [command[:3] for command in session.commands if command[0] == "uv"] == [["uv", "pip", "install"]]


def test_where_uv_cannot_install_pip_does(noxfile):
    noxfile.install(session := Refusing(has_usual_index=False), "dev")
    assert session.commands[-2] == ["pip", "install", "-e", ".[dev]"]


def test_the_size_of_an_environment_is_that_of_its_files(noxfile, tmp_path):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "file").write_bytes(b"x" * 60_000_000)
    code = noxfile.WEIGH.replace("sys.prefix", repr(os.fspath(tmp_path)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "the installation weighs 0.1 GB\n"


def test_uv_knows_the_settings_that_choose_torchs_build(noxfile):
    if not (uv := shutil.which("uv", path=os.fspath(Path(sys.executable).parent)) or shutil.which("uv")):
        pytest.skip("uv is not installed")
    asked = [uv, "pip", "install", "--offline", "--dry-run", "torch", "--python", sys.executable]
    done = subprocess.run(
        asked, env={**os.environ, **noxfile.TORCH_BY_MACHINE}, capture_output=True, text=True, check=False
    )
    assert not re.search("invalid|Failed to parse", done.stderr), done.stderr


@pytest.mark.thorough("command line")
def test_the_line_for_a_smaller_torch_takes_the_build_without_cuda():
    (line,) = re.findall(r"^\$ (uv pip install .*)$", (ROOT / "docs/installing.md").read_text(), flags=re.MULTILINE)
    if not shutil.which("uv"):
        pytest.skip("uv is not installed")
    command = [*shlex.split(line), "--dry-run", "--python", sys.executable, "--reinstall-package", "torch"]
    environment = {**os.environ, "UV_HTTP_RETRIES": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
        pytest.skip("PyTorch's index cannot be reached")
    assert done.returncode == 0, done.stderr
    assert re.search(r"torch==\S+\+cpu", done.stderr), done.stderr


METADATA = """Metadata-Version: 2.4
Name: vllm-like
Version: 1.0
Requires-Dist: numpy
Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0
Requires-Dist: torch==2.13.0+cpu; sys_platform == "linux"
Requires-Dist: torch==2.13.0; sys_platform != "linux"
Requires-Dist: torchvision
Requires-Dist: torchaudio; python_version > "3"
Requires-Dist: scipy; extra == "bench"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the marker of the example")
def test_the_vllm_session_asks_for_no_build_of_torch_that_an_index_lacks(noxfile, tmp_path):
    (tmp_path / "vllm_like-1.0.dist-info").mkdir()
    (tmp_path / "vllm_like-1.0.dist-info/METADATA").write_text(METADATA)
    command = [sys.executable, "-c", noxfile.NEEDS_OF, "vllm-like"]
    environment = {**os.environ, "PYTHONPATH": os.fspath(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["numpy", "fastapi[standard]<0.137.0,>=0.133.0", "torch==2.13.0"]


@pytest.mark.parametrize("name", ["vllm", "kserve"])
def test_the_session_of_a_server_runs_the_files_that_need_it_and_imports_no_others(noxfile, name, tmp_path):
    """Other tests need what the server's environment does not have: to collect them fails."""
    session = Session()
    session.create_tmp, session.run_install = lambda: tmp_path, lambda *command, **_: ""
    getattr(noxfile, name).func(session)
    (command,) = [command for command in session.commands if command[0] == "pytest"]
    mark = f"mark.{name}"
    marked = {str(file.relative_to(ROOT)) for file in ROOT.glob("tests/**/test_*.py") if mark in file.read_text()}
    assert {word for word in command if word.startswith("tests")} == marked
