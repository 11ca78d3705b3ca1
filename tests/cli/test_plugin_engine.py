"""A backend with an engine of its own, begun from nothing: it passes the kit, and broken it is failed or left."""

import asyncio
import gc
import importlib.util
import json
import os
import subprocess
import sys

import pytest
from invoking import invoke

from mlbench.conformance import engine_checks, process_checks, text_checks
from mlbench.conformance.kit import CHECKS_OF_TEXT
from mlbench.conformance.subject import Subject
from mlbench.contracts.precision import Precision
from mlbench.errors import PluginError

for package in ("torch", "transformers", "tokenizers"):
    pytest.importorskip(package)
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return the folder of a new package."""
    folder = tmp_path_factory.mktemp("begun")
    done = invoke("plugin", "new", "my-llm", "--engine", "--into", folder)
    assert done.exit_code == 0
    return folder / "mlbench_my_llm"


@pytest.fixture(scope="module")
def mlbench(begun, tmp_path_factory, pip_install):
    """Return a function that runs a command of mlbench where the new package is installed."""
    target = tmp_path_factory.mktemp("installed")
    pip_install(begun, target)
    environment = {**os.environ, "PYTHONPATH": str(target), "MLBENCH_RESULTS": str(target / "results")}

    def run(*arguments):
        command = [sys.executable, "-m", "mlbench", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    return run


def test_an_engine_is_no_workload(tmp_path):
    done = invoke("plugin", "new", "my-llm", "--engine", "--workload", "--into", tmp_path)
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("Error: --engine is for backends only.")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough("kit")
def test_a_new_engine_is_installed_and_passes_the_kit(mlbench):
    done = mlbench("plugin", "check", "my-llm", "--json")
    findings = json.loads(done.stdout)
    assert [each for each in findings if not each["passed"] and not each["refused"]] == []
    assert {each["check"] for each in findings if not each["refused"]} == {check.__name__ for check in CHECKS_OF_TEXT}
    assert done.returncode == 0


@pytest.fixture(scope="module")
def module(begun):
    spec = importlib.util.spec_from_file_location("mlbench_my_llm", begun / "mlbench_my_llm.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def subject(module):
    """Return a function from what is made of the right tokens to a subject of the kit that yields that."""

    def with_tokens(change):
        class Engine(module.MyLlmEngine):
            patience_s = 1.0

            def generate(self, prompt):
                return change(super().generate(prompt))

        class Changed(module.MyLlm):
            def engine(self, model, plan):
                return Engine(model)

        return Subject(backend=Changed(), precision=Precision.FP32, patience_s=20)

    return with_tokens


async def raising(tokens):
    async for each in tokens:
        yield each
        raise OSError("the device is lost")


async def silent(tokens):
    for each in ():
        yield each


async def running_on(tokens):
    async for each in tokens:
        yield [*each, 5, 5] if each == [2] else each


async def held(tokens):
    """End neither when the answer is over nor when it is cancelled."""
    try:
        async for each in tokens:
            yield each
    finally:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                pass


@pytest.mark.thorough("kit")
def test_tokens_behind_the_end_are_dropped(subject):
    text_checks.ends_after_the_end_token(subject(running_on))


@slow
@pytest.mark.parametrize(
    ("change", "words"),
    [(raising, "the device is lost"), (silent, "the answer stopped after 0 tokens")],
    ids=["raising", "silent"],
)
def test_a_broken_one_is_failed_with_the_reason(subject, change, words):
    with pytest.raises(PluginError, match=words):
        text_checks.generates_the_models_tokens(subject(change))


@pytest.mark.thorough("kit")
def test_one_that_never_ends_is_left(subject, caplog):
    engine_checks.is_silent_after_exit(subject(held))
    process_checks.leaves_nothing_running(subject(held))
    gc.collect()  # what was left is destroyed at some time, whatever runs then
    assert "could not be closed" not in caplog.text
