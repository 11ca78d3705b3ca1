"""``mlbench settings``: what can be set, what it does, and where a value comes from."""

import json
import tomllib
from pathlib import Path

import pytest
from invoking import invoke

from mlbench.discovery import GROUP, Plugins
from mlbench.reports.settings import settings_markdown
from mlbench.settings.descriptions import describe_all

ROOT = Path(__file__).parents[2]
SYSTEM = '[[settings]]\nwhen = { workload = "bert" }\nexecution.batch = 4\n'


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Return a function that runs the command on a machine whose settings file sets BERT's batch."""
    file = tmp_path / "settings.toml"
    file.write_text(SYSTEM)
    monkeypatch.setenv("MLBENCH_SETTINGS", str(file))
    return lambda *words: invoke("settings", *words)


def test_each_setting_of_a_run_has_its_value_its_layer_and_a_line_on_what_it_does(settings):
    lines = settings("bert", "pytorch", "--set", "backend.compile=true").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("backend.compile "))
    assert lines[at].split() == ["backend.compile", "true", "command", "line"]
    assert lines[at + 1].strip() == "Compile modules; on a CPU it needs a C++ compiler. [true or false or auto]"


def test_an_explanation_names_the_layers_that_set_a_key_and_the_file_of_each(settings, tmp_path):
    found = settings("bert", "pytorch", "--explain", "execution.batch", "--set", "execution.batch=8").stdout
    rows = [line.split(maxsplit=1) for line in found.splitlines()[1:]]
    assert ["takes", "auto or integer, 1 or more"] in rows
    assert [row for row in rows if row[0] in {"now", "before"}] == [
        ["now", "8 (command line)"],
        ["before", f"4 (system {tmp_path / 'settings.toml'})"],
        ["before", "auto (default)"],
    ]
    assert "mlbench.contracts.backend.EnginePlan" in found


def test_an_explanation_names_the_file_of_a_workload(settings):
    found = settings("bert", "pytorch", "--explain", "execution.workers").stdout
    rows = [line.split(maxsplit=1) for line in found.splitlines()[1:]]
    assert [row for row in rows if row[0] in {"now", "before"}] == [
        ["now", f"2 (workload bert, {ROOT / 'workloads/mlbench_bert/tuning.toml'})"],
        ["before", "1 (default)"],
    ]


def test_an_explanation_without_a_run_shows_each_backend_that_has_the_key(settings):
    found = settings("--explain", "backend.threads").stdout
    readers = [line.split()[2:4] for line in found.splitlines() if line.startswith("  read by")]
    assert {("backend", "pytorch"), ("backend", "onnxruntime"), ("backend", "cpu_amx")} <= set(map(tuple, readers))
    assert "now" not in found


def test_without_a_run_every_setting_is_listed_with_its_default(settings):
    found = settings().stdout
    assert "workload stable-diffusion-xl" in found and "backend.retries" in found
    groups = {group["reader"]: group for group in json.loads(settings("--json").stdout)}
    (retries,) = (each for each in groups["backend endpoint"]["settings"] if each["key"] == "backend.retries")
    assert (retries["default"], retries["values"]) == ("0", "integer, 0 or more")


def test_json_of_a_run_has_the_description_beside_the_value(settings):
    found = json.loads(settings("bert", "pytorch", "--json", "--explain", "execution.max_wait_us").stdout)
    assert found == {
        "execution.max_wait_us": {
            "value": 0,
            "layer": "default",
            "key": "execution.max_wait_us",
            "text": "How long a dynamic batch waits for more samples, in microseconds.",
            "values": "integer, 0 or more",
            "choices": [],
            "default": "0",
            "does": "",
        }
    }


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["bert"], "workload bert is given without a backend. Name both, or none."),
        (["--explain", "execution.bacth"], "unknown setting 'execution.bacth'. Did you mean 'execution.batch'?"),
        (["bert", "null", "--explain", "backend.compile"], "unknown setting 'backend.compile'"),
        (["bert", "null", "--markdown"], "--markdown is given together with WORKLOAD and BACKEND."),
        (["bert", "null", "--set", "execution.workers=0"], "execution.workers is '0' (command line)"),
        (["bert", "null", "--set", "execution.batching=best"], "Input should be 'inline', 'dynamic'"),
        (["bert", "null", "--set", "backend.delay_ms=-1"], "Input should be greater than or equal to 0"),
        (["bert", "null", "--set", "backend.token_ms=nan"], "Input should be"),
        (["gptj", "null", "--set", "workload.layers=29"], "Input should be less than or equal to 28"),
        (["3d-unet", "null", "--set", "workload.windows_per_call=0"], "greater than or equal to 1"),
    ],
)
def test_what_is_wrong_is_one_line(settings, words, complaint):
    done = settings(*words)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert complaint in done.stderr


def test_the_page_of_all_settings_is_as_the_command_prints_it():
    """Where it differs: mlbench settings --markdown > docs/settings.md, with no plugin from outside installed."""
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    plugins = Plugins.discover()
    ours = {thing: source.split(" (")[0] in own for (_, thing), source in plugins.origins.items()}
    backends = {name: each for name, each in plugins.backends.items() if ours[name]}
    workloads = {name: each for name, each in plugins.workloads.items() if ours[name]}
    assert (ROOT / "docs/settings.md").read_text() == settings_markdown(describe_all(backends, workloads))
