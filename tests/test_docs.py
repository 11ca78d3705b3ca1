"""What the documentation says exists: its links, commands, settings, sessions, fields and rules."""

import ast
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import click
import pytest
from invoking import invoke

from mlbench.cli import main
from mlbench.contracts.precision import Precision
from mlbench.contracts.workload import Profile, Weights
from mlbench.discovery import GROUP
from mlbench.errors import MlbenchError
from mlbench.execution.processes.isolation import FailureKind
from mlbench.planning.requests import RunRequest, settings_of
from mlbench.records.environment import Allowance, Environment
from mlbench.records.run_record import (
    AccuracyRecord,
    OutputDifferenceRecord,
    ResultRecord,
    RunRecord,
    TargetRecord,
    VerdictRecord,
)
from mlbench.records.work_record import EnergyRecord, GraphWorkRecord, RooflineRecord, WorkRecord
from mlbench.rules.tiers import Tier
from mlbench.rules.verdict import RULES
from mlbench.settings.layers import LAYERS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("results/*.md"),
        *(page for folder in ("plugins", "workloads", "examples") for page in ROOT.glob(f"{folder}/*/*.md")),
    ]
)
READING = (ROOT / "docs/reading-a-result.md").read_text()
QUICK = {"list", "settings"}
"""Commands that are run as they stand; of the others only the arguments are checked."""


def named(value):
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


def prose(page):
    """Return a page without its fenced blocks."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


@cache
def anchors(page):
    """Return the names by which GitHub links to a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        if anchor:
            assert anchor in anchors(found), target


def commands_of(page):
    """Yield the commands of a page: lines of console blocks and indented ones that begin with mlbench or with ``$``."""
    text = page.read_text()
    lines = [
        line for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL) for line in block.splitlines()
    ]
    lines += [line[4:] for line in prose(page).splitlines() if re.match(r"    (\$ )?(mlbench|python|pip) ", line)]
    for line in lines:
        for part in line.removeprefix("$ ").split("&&"):
            yield part.strip()


MLBENCH = [
    (page, command) for page in PAGES for command in dict.fromkeys(commands_of(page)) if command.startswith("mlbench ")
]


@cache
def outside_names():
    """Return names that are not installed here: those of the plugins under examples/, and one that is made up."""
    files = ROOT.glob("examples/*/pyproject.toml")
    names = (name for file in files for name in tomllib.loads(file.read_text())["project"]["entry-points"][GROUP])
    return {*names, "my-npu"}


def parsed(command):
    """Return the name of a command and its parsed arguments; raise `click.UsageError` for an unknown one."""
    _, name, *arguments = shlex.split(command)
    assert name in main.list_commands(click.Context(main)), f"there is no command {name}"
    found = main.get_command(click.Context(main), name)
    if isinstance(found, click.Group):
        _, found, arguments = found.resolve_command(click.Context(found), arguments)
    return name, found.make_context(name, arguments).params


@pytest.mark.parametrize(("page", "command"), MLBENCH, ids=named)
def test_a_command_has_these_options_and_names(page, command, plugins):
    if shlex.split(command)[1] in outside_names():  # a plugin's own command
        return
    name, given = parsed(command)
    listed = {"workload": plugins.workloads, "backend": plugins.backends, "scenario": plugins.scenarios}
    for kind, known in listed.items():
        values = given.get(f"{kind}s", given.get(kind)) or ()
        for value in [values] if isinstance(values, str) else values:
            assert value in {*known, *outside_names()}, f"there is no {kind} {value}"
    if name in {"run", "settings", "check"}:
        check_settings(given, plugins)


def check_settings(given, plugins):
    """Hold the settings of a command against the plugins it names, where they are installed."""
    one = {
        kind: next(iter(given.get(f"{kind}s") or ()), given.get(kind)) for kind in ("workload", "backend", "scenario")
    }
    if given.get("name") in plugins.backends:  # of a check
        one["backend"] = given["name"]
    names = {
        **{"workload": "resnet50", "backend": "pytorch", "scenario": "Offline"},
        **{k: v for k, v in one.items() if v},
    }
    if set(names.values()) & outside_names():
        return
    request = RunRequest(
        **names,
        precision=Precision(given["precision"]) if given.get("precision") else None,
        overrides=given["overrides"],
    )
    settings_of(request, plugins)
    assert not request.precision or request.precision in plugins.backend(names["backend"]).probe().precisions


@pytest.mark.parametrize("command", sorted({command for _, command in MLBENCH if shlex.split(command)[1] in QUICK}))
def test_a_quick_command_runs(command, tmp_path, monkeypatch):
    if set(shlex.split(command)) & outside_names():
        pytest.skip("the example is not installed here")
    monkeypatch.setenv("MLBENCH_SETTINGS", str(tmp_path / "none.toml"))
    done = invoke(*shlex.split(command)[1:])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout


def test_a_command_that_does_not_exist_would_be_noticed(plugins):
    with pytest.raises(AssertionError, match="no command walk"):
        parsed("mlbench walk")
    with pytest.raises(click.UsageError, match="--colour"):
        parsed("mlbench run --colour red")
    _, given = parsed("mlbench run bert --set backend.speed=9")
    with pytest.raises(MlbenchError, match=re.escape("backend.speed")):
        check_settings(given, plugins)


@cache
def sessions():
    tree = ast.parse((ROOT / "noxfile.py").read_text())
    functions = [each for each in tree.body if isinstance(each, ast.FunctionDef)]
    return {each.name for each in functions if "nox.session" in map(ast.unparse, each.decorator_list)}


def test_nox_sessions_exist():
    found = {(page.name, name) for page in PAGES for name in re.findall(r"nox -s (\w+)", page.read_text())}
    assert found
    assert {(page, name) for page, name in found if name not in sessions()} == set()


def test_contributing_lists_every_session():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    table = text[text.index("| session |") : text.index("```console\n$ python3 -m nox")]
    assert set(re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)) == sessions()


def test_the_list_of_decisions_names_every_page_by_its_title():
    folder = ROOT / "docs/decisions"
    titles = {page.name: page.read_text().partition("\n")[0] for page in folder.glob("0*.md")}
    listed = re.findall(r"^- (\d+): \[(.*)\]\((.*)\)$", (folder / "README.md").read_text(), flags=re.MULTILINE)
    assert {file: f"# {number}. {title}" for number, title, file in listed} == titles


EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_extras_exist():
    extra = re.compile(r"(?:'\.|'mlbench-inference)\[(\w[\w-]*)\]")
    found = {(page.name, name) for page in PAGES for name in extra.findall(page.read_text())}
    assert found
    assert {(page, name) for page, name in found if name not in EXTRAS} == set()


def test_the_readme_is_short_and_has_the_two_commands_the_table_and_a_picture():
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= 120
    for session in ("demo", "tests"):
        assert f"python3 -m pip install -c constraints.txt nox && python3 -m nox -s {session}\n" in text
    assert re.search(r"<!-- status table -->\n.*<!-- /status table -->", text, flags=re.DOTALL)
    (picture,) = re.findall(r"!\[[^\]]+\]\((docs/images/[^)]+)\)", text)
    assert (ROOT / picture).stat().st_size < 100_000


def test_a_change_is_one_line_that_a_user_reads_at_a_glance():
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert [line for line in lines if len(line) > 200 or line.startswith("  ")] == []


def test_settings_named_in_the_pages_exist(plugins):
    request = RunRequest(workload="resnet50", backend="pytorch", scenario="Server")
    known = {key for key in settings_of(request, plugins).by_key if key.startswith(("load.", "execution."))}
    for page in PAGES:
        found = set(re.findall(r"`(?:--set )?((?:load|execution)\.[a-z_]+)", page.read_text()))
        assert found <= known, f"{named(page)}: {found - known}"


# docs/reading-a-result.md


@pytest.mark.parametrize("field", [*RunRecord.model_fields])
def test_every_field_of_a_record_is_explained(field):
    assert re.search(rf"^\|.*`{field}(\.\w+)?`.*\|", READING, flags=re.MULTILINE)


PARTS = [
    *(ResultRecord, AccuracyRecord, OutputDifferenceRecord, TargetRecord, VerdictRecord, Environment, Allowance),
    *(EnergyRecord, GraphWorkRecord, WorkRecord, RooflineRecord),
]


@pytest.mark.parametrize("record", PARTS)
def test_every_field_of_a_part_of_a_record_is_named(record):
    text = re.sub(r"`\w+\.", "`", READING)
    assert [field for field in record.model_fields if f"`{field}`" not in text] == []


def test_every_rule_is_explained_and_no_other():
    table = READING[READING.index("## The rules") : READING.index("## The overhead column")]
    explained = re.findall(r"^\| `([\w.<>@]+)` \|", table, flags=re.MULTILINE)
    assert explained == [rule.__name__ for rule in RULES] + ["accuracy.<score>@<variant>", "output_difference"]


def test_every_kind_of_failure_is_explained():
    table = READING[READING.index("## Failures") :]
    assert re.findall(r"^\| `([a-z ]+)` \|", table, flags=re.MULTILINE) == [str(kind) for kind in FailureKind]


def test_every_tier_is_explained():
    assert re.findall(r"^\| `(\w+)` \| \d+ s", READING, flags=re.MULTILINE) == [str(tier) for tier in Tier]


@pytest.mark.parametrize("choices", [Profile, Tier, Weights, Precision.KNOWN])
def test_the_page_on_running_names_every_choice(choices):
    table = (ROOT / "docs/running.md").read_text().partition("| choice |")[2].partition("\n\n")[0]
    assert [each for each in choices if f"`{each}`" not in table] == []


# the shortest backend


def shortest_backend():
    section = (
        (ROOT / "docs/tutorial-backend.md").read_text().partition("## A backend in 20 lines")[2].partition("\n## ")[0]
    )
    (block,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    return block


def test_the_shortest_backend_has_as_many_lines_as_its_heading_says():
    assert sum(bool(line.strip()) for line in shortest_backend().splitlines()) <= 20


def test_the_shortest_backend_registers_and_answers_a_probe():
    namespace = {}
    exec(shortest_backend(), namespace)  # our own page
    (backend,) = namespace["mlbench_backends"]()
    assert backend.name == "my-openvino"
    assert isinstance(backend.probe().is_available, bool)
    assert list(inspect.signature(backend.compile).parameters) == ["graph", "precision"]


@pytest.mark.thorough("kit")
def test_the_shortest_backend_passes_the_conformance_kit(tmp_path):
    pytest.importorskip("openvino")
    (tmp_path / "readme_backend.py").write_text(shortest_backend())
    distribution = tmp_path / "readme_backend-1.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: readme-backend\nVersion: 1\n")
    (distribution / "entry_points.txt").write_text(f"[{GROUP}]\nmy_openvino = readme_backend\n")
    script = "from mlbench.cli import main; main(['check', 'my-openvino'])"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert "51 of 51 checks passed" in done.stdout, done.stdout
    assert done.returncode == 0


def test_nothing_calls_the_data_of_all_mini_profiles_real():
    """Six of the nine built-in ones are generated."""
    pages = [*PAGES, *(ROOT / "mlbench").rglob("*.py"), *(ROOT / "mlbench").rglob("*.j*")]
    assert [named(page) for page in pages if re.search(r"small\s+real\s+data", page.read_text())] == []


def test_the_page_on_running_names_the_layers_of_settings_in_their_order():
    assert f"a later one overrides an earlier one: {', '.join(LAYERS)}." in (ROOT / "docs/running.md").read_text()
