"""``mlbench verify``: does a record say what LoadGen's logs say?"""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.cli.options import results_option


@click.command("verify", short_help="Read a run's LoadGen logs again, and compare them with its record.")
@click.argument("run")
@results_option
def command(run: str, results: Path) -> int:
    """Score the logs of RUN once more; exit status 1 when the record says anything else."""
    from mlbench.discovery import Plugins
    from mlbench.errors import UsageError
    from mlbench.measurement.verification import differences
    from mlbench.records.run_folder import find_run
    from mlbench.records.run_record import read

    folder = find_run(results, run)
    record = read(folder)
    if record.imported:
        raise UsageError(
            f"run {record.run_id} was imported: the replies that could be scored once more are not in its tree.",
            hint="See `mlbench show`.",
        )
    if record.status != "completed":
        raise UsageError(f"run {record.run_id} has no result to verify: it failed.", hint="See `mlbench show`.")
    found = list(differences(record.model_dump(mode="json"), folder, Plugins.discover()))
    for difference in found:
        click.echo(difference)
    if not found:
        click.echo(f"{record.run_id}: the logs give the recorded result and accuracy again")
    return 1 if found else 0
