"""``mlbench export``: write stored runs as one file for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import results_option
from mlbench.cli.output import echo_line
from mlbench.errors import UsageError


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@results_option
def command(file: Path, results: Path) -> None:
    """Write a row per run to FILE, as Parquet or CSV by its extension: .parquet or .csv."""
    from mlbench.records.store.query import export

    kind = file.suffix.lstrip(".")
    if kind not in ("parquet", "csv"):
        raise UsageError(f"file {file} has neither the extension .parquet nor .csv.")
    echo_line(f"{file}: {export(results, file, kind)} runs")
