"""``mlbench import``: store the results of an official tree as run folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.options import results_option, tag_option
from mlbench.cli.output import echo_json, echo_line
from mlbench.discovery import Plugins

if TYPE_CHECKING:
    from mlbench.submission.importing import Imported


@click.command("import")
@click.argument("tree", type=click.Path(path_type=Path))
@tag_option
@results_option
@click.option("--json", "as_json", is_flag=True, help="Print imported and unreadable results as JSON.")
def command(tree: Path, tag: str, results: Path, as_json: bool) -> int:
    """Store a run for each result in TREE, the folder that holds closed, open or network, or several such folders.

    Each result is read from its LoadGen log and checked against the rules of its round, which the seeds in the log
    tell; a result that was imported before is skipped. Results that cannot be read are listed with the reason. Exit
    status: 0, or 1 when a result was not read.
    """
    from mlbench.submission.importing import import_tree

    imported = import_tree(tree, results, tag=tag, on_stored=Plugins.discover().notify_stored)
    if as_json:
        echo_json(_json(imported, tree))
    else:
        _tell(imported, tree)
    return 1 if imported.unread else 0


def _tell(imported: Imported, tree: Path) -> None:
    from mlbench.reports.console import one_line, problems

    for record in imported.records:
        echo_line(one_line(record))
    for record in imported.records:
        for problem in problems(record):
            echo_line(f"{record.imported.path if record.imported else ''}: {problem}", to_stderr=True)
    for unread in imported.unread:
        echo_line(f"not read: {unread.path.relative_to(tree)}: {unread.reason}", to_stderr=True)
    known = f", {imported.known} imported before" if imported.known else ""
    rounds = "".join(f", {count} of them of round {name}" for name, count in sorted(imported.other_rounds.items()))
    echo_line(f"{len(imported.records)} imported{known}, {len(imported.unread)} not read{rounds}", to_stderr=True)


def _json(imported: Imported, tree: Path) -> str:
    content = {
        "imported": [record.model_dump(mode="json") for record in imported.records],
        "known": imported.known,
        "unread": [
            {"path": str(unread.path.relative_to(tree)), "reason": unread.reason, "round": unread.round}
            for unread in imported.unread
        ],
    }
    return json.dumps(content, indent=2)
