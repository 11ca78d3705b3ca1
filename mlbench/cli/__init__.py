"""The command line: one file per command, named as the command, each holding a click command called ``command``."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mlbench.cli.examples import add_examples
from mlbench.cli.output import logging_to_stderr, spare_search_for_garbage
from mlbench.cli.sections import COMMANDS, SECTIONS
from mlbench.cli.streams import UNWRITABLE, complain, end_process, is_output_lost, prepare_streams
from mlbench.errors import MlbenchError, UnavailableError, describe_error, printable
from mlbench.system.folders import NO_PLUGINS
from mlbench.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_WITH_DEFAULTS = {
    **dict.fromkeys(("run", "precisions"), ("backends", "tier", "precisions", "round")),
    **dict.fromkeys(("tune", "curve"), ("backend", "tier", "precision", "round")),
    **dict.fromkeys(("list", "rules"), ("round",)),
    "serve": ("backend", "precision"),
    **dict.fromkeys(("demo", "submit plan"), ("backend",)),
    **dict.fromkeys(("compare", "regress"), ("margin", "accuracy_margin")),
    **dict.fromkeys(("history", "report", "site"), ("margin",)),
}
"""By command, the parameters that the machine's settings file may have a default for."""

_REPEATABLE = ("margin",)
"""Those that may be given several times."""

_OTHER_NAMES = {
    **dict.fromkeys(("--port", "--host"), "--listen HOST:PORT"),
    **dict.fromkeys(("--batch", "--batch-size"), "--set execution.batch=N"),
    "--url": "--set backend.url=URL",
    "--model": "--set backend.model=NAME",
    "--device": "--set backend.device=NAME",
    "--duration": "--tier",
}
"""Options of similar tools, and what to type instead."""

SHORT_HELP = 80
"""Most characters of a plugin command's help in the list of commands."""


class _Commands(click.Group):
    """Loads each command on first use, and prints errors that a user can act on without a traceback."""

    _foreign = ""
    """Name of the command in use, if a plugin brings it: its errors are the plugin's."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *_plugin_commands()]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        self._foreign = ""
        if name in COMMANDS:
            found: click.Command = importlib.import_module(f"mlbench.cli.{name}").command
            add_examples(found, name)
            return found
        found_outside = _plugin_commands().get(name)
        self._foreign = name if found_outside else ""
        return found_outside

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from mlbench.cli.completions import offer

        own = (each for commands in SECTIONS.values() for each in commands.items())
        outside = ((name, found.get_short_help_str(SHORT_HELP)) for name, found in _plugin_commands().items())
        return [*offer((*own, *outside), incomplete), *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        spare_search_for_garbage()
        outside = {name: found.get_short_help_str(SHORT_HELP) for name, found in _plugin_commands().items()}
        for title, commands in {**SECTIONS, "From plugins": outside}.items():
            if commands:
                with formatter.section(title):
                    formatter.write_dl([*commands.items()], col_max=len(max(COMMANDS, key=len)))

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        _check_system()
        try:
            found = super().resolve_command(context, args)
        except click.UsageError:
            from mlbench.discovery import nearest

            hint = nearest(args[0], self.list_commands(context))
            raise click.UsageError(f"unknown command {args[0]!r}. {hint}", context) from None
        if not context.resilient_parsing:
            _take_defaults(context, args)
        return found

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        """Run a command. Exit status: 0 good, 1 the run or comparison failed, 2 wrong usage, 3 suspected (`regress`).

        Without arguments it reads those of the process, and ends the process.
        """
        if args is None:
            prepare_streams()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a terminal's encoding may not be UTF-8
        with logging_to_stderr():
            status = self._status_of(args, *more, **options)
        if status != UNWRITABLE and is_output_lost():
            status = UNWRITABLE
        if args is None:
            end_process(status)
        sys.exit(status)

    def _status_of(self, args: Sequence[str] | None, *more: Any, **options: Any) -> int:
        try:
            given = sys.argv[1:] if args is None else [*args]  # `list` is a command's module here
            _check_words(given)
            if given[:1] == ["help"]:
                given = [*given[1:], "--help"]
            status = super().main(given or ["--help"], *more, **{**options, "standalone_mode": False})
            return int(status) if isinstance(status, int) else 0
        except click.Abort:
            complain("Interrupted.")
            return 130
        except click.NoSuchOption as error:
            other = _other_name(error)
            complain(f"Error: {printable(error.format_message())}{f' Use {other}.' if other else ''}")
            return error.exit_code
        except (click.ClickException, MlbenchError) as error:
            complain(
                f"Error: {printable(error.format_message()) if isinstance(error, click.ClickException) else error}"
            )
            return error.exit_code
        except Exception as error:
            return self._status_after(error)

    def _status_after(self, error: Exception) -> int:
        """Print an error of a plugin or the system and return the exit status; raise a bug of mlbench's own."""
        if isinstance(error, OSError) and is_output_lost():
            return UNWRITABLE
        if self._foreign:
            complain(f"Error: command {self._foreign} failed: {describe_error(error)}.")
            return 1
        if not isinstance(error, OSError) or error.filename is None:
            raise error
        complain(f"Error: {os.fsdecode(error.filename)}: {error.strerror}.")
        return 2


def _check_words(words: Sequence[str]) -> None:
    """Raise `click.UsageError` for an argument that is not valid Unicode, such as half of a surrogate pair."""
    for word in words:
        try:
            os.fsencode(word)
        except UnicodeEncodeError:
            raise click.UsageError(f"{word!r} is not valid Unicode.") from None


def _other_name(error: click.NoSuchOption) -> str:
    """Return our option for an option of a similar tool; empty where this command has no such option."""
    other = _OTHER_NAMES.get(error.option_name, "")
    known = error.ctx.command.params if error.ctx else []
    return other if any(other.partition(" ")[0] in each.opts for each in known) else ""


def _check_system() -> None:
    """Raise `UnavailableError` on any system but Linux, before a Linux-only module is imported."""
    if sys.platform != "linux":
        raise UnavailableError(
            f"mlbench runs on Linux only, and this is {sys.platform}.",
            hint="Use a Linux machine, a container or WSL 2; docs/installing.md has Dockerfiles.",
        )


def _plugin_commands() -> dict[str, click.Command]:
    from mlbench.discovery import Plugins

    return Plugins.discover_commands().commands


def _load_no_plugins(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    """Turn plugins off in this process and its children, until the command ends."""
    if is_given:
        before = os.environ.get(NO_PLUGINS, "")
        os.environ[NO_PLUGINS] = "1"
        context.call_on_close(lambda: os.environ.update({NO_PLUGINS: before}))


def _take_defaults(context: click.Context, words: Sequence[str]) -> None:
    """Give a command the defaults of the machine's settings file; a wrong file does not keep its help from printing."""
    command = next((each for each in _WITH_DEFAULTS if [*words[: each.count(" ") + 1]] == each.split()), "")
    if not command:
        return
    from mlbench.settings.layers import read_defaults
    from mlbench.system.folders import system_settings_file

    try:
        found = {name.replace("-", "_"): value for name, value in read_defaults(system_settings_file()).items()}
    except MlbenchError as error:
        if not set(context.help_option_names) & set(words):
            raise
        complain(f"Warning: {error}")
        return
    several = {name if name in _REPEATABLE else f"{name}s": (value,) for name, value in found.items()}
    chosen = {name: value for name, value in {**found, **several}.items() if name in _WITH_DEFAULTS[command]}
    first, *others = command.split()
    context.default_map = {first: {other: chosen for other in others} or chosen}


@click.command(
    cls=_Commands,
    epilog="`mlbench help COMMAND` explains a command and ends with examples.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("-v", "--verbose", is_flag=True, help="Log slow steps to standard error.")
@click.option(
    "--no-plugins",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_load_no_plugins,
    help=f"Load only the built-in plugins, as {NO_PLUGINS}=1 does.",
)
@click.version_option(__version__, prog_name="mlbench")
def main(verbose: bool) -> None:
    """Measure AI inference honestly: the nine MLPerf Inference v4.1 workloads, on any backend, under LoadGen."""
    logging.getLogger().setLevel(logging.INFO if verbose else logging.WARNING)
