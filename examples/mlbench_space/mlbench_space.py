"""A command of mlbench: how much disk space the runs of each workload take."""

import json
from collections import Counter
from pathlib import Path

import click

from mlbench import UsageError, hookimpl


@click.command("space")
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    envvar="MLBENCH_RESULTS",
    default=Path("results"),
    show_default=True,
    help="Folder of run folders.",
)
def space(results: Path) -> None:
    """Show how much disk space the runs of each workload take."""
    runs, sizes = Counter[str](), Counter[str]()
    for record in results.glob("[!.]*/record.json"):  # the name of a run in the making begins with a dot
        workload = json.loads(record.read_text(encoding="utf-8"))["workload"]
        runs[workload] += 1
        sizes[workload] += sum(file.stat().st_size for file in record.parent.rglob("*") if file.is_file())
    if not runs:
        raise UsageError(f"no runs in {results}.", hint="Name their folder with --results.")
    for workload, size_bytes in sizes.most_common():
        click.echo(f"{workload}: {runs[workload]} runs, {size_bytes / 2**20:.2f} MiB")


@hookimpl
def mlbench_commands() -> list[click.Command]:
    """Return the command."""
    return [space]
