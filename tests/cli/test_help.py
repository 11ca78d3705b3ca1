"""What ``mlbench --help`` prints, and that it is there without importing the commands."""

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from invoking import invoke

import mlbench
from mlbench import toolkit
from mlbench.cli import COMMANDS, SHORT_HELP, main
from mlbench.cli.examples import EXAMPLES
from mlbench.cli.sections import SECTIONS
from mlbench.contracts.hookspecs import OWN_COMMANDS
from mlbench.discovery import Plugins

CLI = Path(main.callback.__code__.co_filename).parent
NO_COMMANDS = {
    *("__init__", "completions", "examples", "options", "output", "progress", "run_maker"),
    *("axis_options", "backends_in_turns", "budget", "confirm", "until_sure"),
    "submit_build",
    "submit_plan",
    "model_options",
    "search_options",
    "tune_settings",
    "sections",
    "streams",
}


def test_every_command_is_in_one_section():
    files = {file.stem for file in CLI.glob("*.py")} - NO_COMMANDS
    listed = [name for commands in SECTIONS.values() for name in commands]
    assert sorted(listed) == sorted(files) == sorted(OWN_COMMANDS) == sorted(COMMANDS)


def test_a_module_starts_the_command_under_its_name():
    said = subprocess.run(
        [sys.executable, "-m", "mlbench", "show", "--help"], capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("Usage: mlbench show ")


@pytest.mark.parametrize("words", ["", "compare", "submit plan"])
def test_help_is_a_word_as_well_as_an_option(words):
    by_option = invoke(*words.split(), "--help")
    by_word = invoke("help", *words.split())
    assert (by_word.exit_code, by_word.output) == (0, by_option.output)


def test_help_for_an_unknown_command_names_the_nearest_one():
    done = invoke("help", "compair")
    assert (done.exit_code, "compare" in done.stderr) == (2, True)


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_another_system_than_linux_gets_one_line(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    done = invoke("list")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"Error: mlbench runs on Linux only, and this is {platform}. ")
    assert done.stderr.count("\n") == 1
    assert invoke("--version").exit_code == 0


def test_help_lists_every_command_with_its_line_and_those_of_plugins_apart(monkeypatch):
    outside = Plugins(commands={"idle": click.Command("idle", short_help="Wait for work.")})
    monkeypatch.setattr(Plugins, "discover_commands", classmethod(lambda cls: outside))
    done = invoke("--help", terminal_width=100)
    for title, commands in SECTIONS.items():
        section = done.output.partition(f"{title}:\n")[2].partition("\n\n")[0]
        assert all(f"  {name}" in section and line in section for name, line in commands.items()), title
    assert "From plugins:\n  idle  Wait for work.\n" in done.output


def test_no_line_of_a_plugins_command_is_cut():
    found = Plugins.discover_commands().commands
    lines = {name: command.get_short_help_str(SHORT_HELP) for name, command in found.items()}
    assert "bench-endpoint" in lines
    assert not [name for name, line in lines.items() if line.endswith("...")]


def test_help_imports_no_command():
    begin = "import sys\nfrom mlbench.cli import main\n"
    script = f"{begin}try:\n    main(['--help'])\nexcept SystemExit:\n    print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("mlbench.cli.") for name in done.stdout.split() if name.startswith("mlbench.cli.")}
    assert loaded == {"examples", "output", "sections", "streams"}


def commands(name=None, found=main):
    """Yield the words and the object of each command and of each below it."""
    names = COMMANDS if found is main else found.commands if isinstance(found, click.Group) else ()
    for below in names:
        words = f"{name} {below}" if name else below
        command = found.get_command(click.Context(found), below)
        yield words, command
        yield from commands(words, command)


@pytest.mark.parametrize(("name", "command"), [*commands()])
def test_every_command_has_examples_and_each_would_run(name, command):
    assert name in EXAMPLES
    for example in EXAMPLES[name]:
        program, *words = shlex.split(example.partition(" >")[0])
        context, found = click.Context(main), main
        while isinstance(found, click.Group):
            below, found, words = found.resolve_command(context, words)
            context = click.Context(found, info_name=below)
        assert program == "mlbench"
        found.make_context(found.name, words)


@pytest.mark.parametrize(("name", "command"), [*commands()])
def test_help_of_every_command_says_what_each_argument_and_option_is_and_ends_with_the_examples(name, command):
    text = invoke(*name.split(), "--help", terminal_width=100).output
    said, _, examples = text.partition("Examples:\n")
    assert examples.split("\n")[:-1] == [f"    {line}" for line in EXAMPLES[name]]
    about = " ".join(said.partition("\n\n")[2].split())
    for each in command.params:
        if isinstance(each, click.Option):
            assert each.help, each.name
        else:
            words = re.findall("[A-Z]+", each.make_metavar(click.Context(command))) or [each.name.upper()]
            assert [word for word in words if word.removesuffix("S") not in about] == []


def test_help_of_a_built_in_plugins_command_ends_with_examples_that_would_run():
    found = Plugins.discover_commands().commands["bench-endpoint"]
    examples = invoke("help", "bench-endpoint").output.partition("Examples:\n")[2].splitlines()
    assert len(examples) > 1
    for example in examples:
        found.make_context(found.name, shlex.split(example)[2:])


def test_examples_are_of_commands_that_exist():
    assert {name for name, _ in commands()} == set(EXAMPLES)


def test_every_name_of_the_toolkit_is_there_and_no_module():
    assert [name for name in toolkit.__all__ if isinstance(getattr(toolkit, name), ModuleType)] == []


@pytest.mark.parametrize("package", [mlbench, toolkit], ids=lambda package: package.__name__)
def test_a_package_imports_when_used_what_it_shows_to_type_checkers(package):
    tree = ast.parse(Path(package.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    names = {alias.name for node in block.body for alias in node.names}
    assert names | {"__version__"} >= set(package.__all__) >= names
    assert all(hasattr(package, name) for name in names)
    inside = {file.stem for file in Path(package.__file__).parent.iterdir()}
    assert names & inside == set(), "importing the module of that name hides the name"


def test_a_plugin_that_asks_for_a_backend_loads_the_contracts_of_backends_alone():
    script = "import sys\nfrom mlbench import Backend\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("mlbench.contracts.")}
    assert "mlbench.contracts.backend" in loaded
    assert loaded.isdisjoint({"mlbench.contracts.metric", "mlbench.contracts.engine", "mlbench.contracts.statistics"})


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Backends'"):
        mlbench.Backends  # noqa: B018
