"""``mlbench verify``: check a record against LoadGen's logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_runs
from mlbench.cli.options import results_option, word_options
from mlbench.cli.output import echo_line
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.version import __version__

if TYPE_CHECKING:
    from mlbench.settings.layers import OwnWord


@click.command("verify")
@click.argument("run", shell_complete=offer_runs)
@results_option
@word_options
def command(run: str, results: Path, word: OwnWord) -> int:
    """Rebuild the record of RUN from its logs and its id; exit status 1 when the record differs.

    Values found only in the record, such as energy and the machine, are listed with the reason.
    """
    from mlbench.measurement.verification import verify
    from mlbench.planning.repeats import check_scoring
    from mlbench.records.run_record import FORMAT, read
    from mlbench.records.store.run_folder import find_run

    folder = find_run(results, run).resolve()
    record = read(folder)
    if record.imported:
        raise UsageError(
            f"run {record.run_id} was imported without the replies, so it cannot be scored again.",
            hint="See `mlbench show`.",
        )
    if record.status != "completed":
        raise UsageError(f"run {record.run_id} has no result to verify: it failed.", hint="See `mlbench show`.")
    plugins = Plugins.discover()
    check_scoring(record, plugins, word)
    outcome = verify(record, folder, plugins)
    for difference in outcome.differences:
        echo_line(difference)
    if outcome.differences and (record.format < FORMAT or record.mlbench_version != __version__):
        echo_line(f"the record is of mlbench {record.mlbench_version}; rules and fields may have changed since")
    if not outcome.differences:
        echo_line(f"{folder.name}: logs and id confirm {outcome.confirmed} recorded values")
    for name, extent in outcome.checked_in_part.items():
        echo_line(f"  checked in part: {name}: {extent}")
    by_reason: dict[str, list[str]] = {}
    for name, reason in outcome.not_checked.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        echo_line(f"  not checked: {', '.join(names)}: {reason}")
    return 1 if outcome.differences else 0
