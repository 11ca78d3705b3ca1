"""The command line: one file per command, named as the command, each holding a click command called ``command``."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from typing import Any

import click

from mlbench import __version__
from mlbench.errors import MlbenchError

COMMANDS = (
    *("run", "list", "show", "table", "verify"),
    *("compare", "regress", "baseline", "history", "cost", "report"),
    *("query", "export", "import", "published"),
    *("settings", "doctor", "check", "roofline", "plugin"),
)


class _Commands(click.Group):
    """Finds commands when they are asked for, and prints what a user can act on without a traceback."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *_plugin_commands()]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS:
            found: click.Command = importlib.import_module(f"mlbench.cli.{name}").command
            return found
        return _plugin_commands().get(name)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(context, args)
        except click.UsageError:
            from mlbench.discovery import nearest

            hint = nearest(args[0], self.list_commands(context))
            raise click.UsageError(f"unknown command {args[0]!r}. {hint}", context) from None

    def main(self, args: Sequence[str] | None = None, *more: Any, **options: Any) -> Any:
        """Run a command: exit 0 good, 1 the run or comparison failed, 2 wrong usage."""
        try:
            status = super().main(args, *more, **{**options, "standalone_mode": False})
        except click.UsageError as error:
            click.echo(f"Error: {error.format_message()}", err=True)
            sys.exit(2)
        except click.Abort:
            click.echo("Interrupted.", err=True)
            sys.exit(130)
        except MlbenchError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(error.exit_code)
        sys.exit(status if isinstance(status, int) else 0)


def _plugin_commands() -> dict[str, click.Command]:
    from mlbench.discovery import Plugins

    return Plugins.discover().commands


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-v", "--verbose", is_flag=True, help="Log what takes time, to standard error.")
@click.version_option(__version__, prog_name="mlbench")
def main(verbose: bool) -> None:
    """Measure AI inference honestly: the nine MLPerf Inference v4.1 workloads, on any backend, under LoadGen."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
