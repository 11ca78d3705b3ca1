"""An example as its users have it: installed from outside."""

import importlib.util
import os
import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def with_the_plugin(request, tmp_path_factory, pip_install):
    """Return an environment in which the module's example is installed, and nothing of it is left elsewhere."""
    folder = tmp_path_factory.mktemp("installed")
    pip_install(request.module.EXAMPLE, folder)
    return {**os.environ, "PYTHONPATH": str(folder), "MLBENCH_RESULTS": str(folder / "results")}


@pytest.fixture(scope="module")
def mlbench(with_the_plugin):
    """Return a function that runs a command of mlbench where the module's example is installed."""

    def run(*arguments):
        command = [sys.executable, "-m", "mlbench", *arguments]
        return subprocess.run(command, env=with_the_plugin, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def plugin(request):
    """Return the module of the example itself."""
    example = request.module.EXAMPLE
    spec = importlib.util.spec_from_file_location(example.name, example / f"{example.name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def store(tmp_path):
    """Return a function that stores a record as a run folder."""

    def store(record):
        folder = tmp_path / record.run_id
        folder.mkdir()
        (folder / "record.json").write_text(record.text())
        return folder

    return store
