"""``mlbench regress``: fail a CI job when runs are worse than the baseline."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.budget import TimeForTurns, margin_words, until_sure_options
from mlbench.cli.completions import offer_baselines, offer_runs
from mlbench.cli.options import accuracy_margin_option, across_option, margin_option, results_option, word_options
from mlbench.cli.output import echo_json, terminal_width
from mlbench.comparison.sessions import newest_session, without_those_of
from mlbench.errors import UsageError
from mlbench.records.store.whole_file import write_whole

if TYPE_CHECKING:
    from mlbench.comparison.compare import Comparison
    from mlbench.records.run_record import RunRecord
    from mlbench.records.store.baselines import Baseline
    from mlbench.running.turns import Command
    from mlbench.settings.layers import OwnWord

SUSPECTED = 3
"""Exit status for runs that are slower on a machine that changed too much to tell the cause."""


@click.command("regress")
@click.argument("new", required=False, shell_complete=offer_runs)
@click.option(
    "--baseline",
    required=True,
    metavar="NAME",
    shell_complete=offer_baselines,
    help="Baseline, from `mlbench baseline list`.",
)
@click.option(
    "--again",
    metavar="RUNS",
    help="Runs of the baseline's product that were interleaved with NEW: speeds are compared with them.",
)
@click.option(
    "--confirm",
    "other",
    metavar="COMMAND",
    help="The mlbench command installed with the baseline's product (old/bin/mlbench). A result that looks slower "
    "or has no verdict is measured again by both, interleaved, and the new result counts.",
)
@click.option("--pairs", type=click.IntRange(3), default=10, show_default=True, help="Runs of each side for --confirm.")
@until_sure_options
@across_option
@margin_option
@accuracy_margin_option
@click.option("--strict", is_flag=True, help="Exit 1 also when a result could not be judged.")
@results_option
@word_options
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML to this file.")
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Write a summary to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    new: str | None,
    baseline: str,
    again: str | None,
    other: str | None,
    pairs: int,
    until: TimeForTurns | None,
    across: tuple[str, ...],
    margin: dict[str, float],
    accuracy_margin: float,
    strict: bool,
    results: Path,
    word: OwnWord,
    junit: Path | None,
    markdown: Path | None,
    as_json: bool,
) -> int:
    """Compare the newest session of NEW with a baseline.

    NEW is a run, a folder or a tag, without the baseline's own runs; if omitted, all runs made since the baseline. Only
    the newest session is judged; earlier ones show the spread between sessions.

    Exit status: 0 when nothing got worse; 1 when a result is slower, less accurate, missing or has no valid run, when
    nothing could be judged (even a loss of half the speed would not show), or when the two cannot be compared; with
    --strict also when any result could not be judged: an inconclusive number, accuracy that was not measured, runs that
    failed or are INVALID. 3 when a result is only suspected: it is slower than on other days, but the machine changed
    too and may be the cause.
    """
    from mlbench.cli.confirm import Confirming, confirm_in_turns
    from mlbench.comparison.with_history import compare_with_history
    from mlbench.records.store.baselines import read_baseline
    from mlbench.records.store.selection import records_named
    from mlbench.running.turns import Command

    if until and not other:
        raise UsageError("--until-sure is given without --confirm.", hint="It measures with the other mlbench.")
    other_mlbench = Command(other) if other else None
    stored = read_baseline(results, baseline)
    records = _newest(results, new, stored)
    _refuse_the_baselines_own(records, stored)
    made_again = newest_session(records_named(results, again)) if again else []
    comparison = compare_with_history(
        results,
        stored.records,
        records,
        across=across,
        margin=margin,
        accuracy_margin=accuracy_margin,
        again=made_again,
    )
    measured = None
    if other_mlbench:
        how = Confirming(
            command=other_mlbench,
            pairs=pairs,
            results=results,
            across=across,
            word=word,
            until=until,
            go_on=_command_again(new, baseline, other_mlbench, across, margin),
            is_for_programs=as_json,
        )
        comparison, measured = confirm_in_turns(comparison, how, base=stored.records, new=records)
    _show(comparison, baseline, junit=junit, markdown=markdown, as_json=as_json)
    if measured:
        measured.close()
    is_unsure = comparison.is_blind or (strict and bool(comparison.not_judged))
    if comparison.is_worse or is_unsure:
        return 1
    return SUSPECTED if comparison.suspected else 0


def _command_again(
    new: str | None, baseline: str, other: Command, across: Sequence[str], margin: dict[str, float]
) -> str:
    """Return the command line that goes on with the turns of this one, without the time for them."""
    facts = [word for fact in across for word in ("--across", fact)]
    named = [*([new] if new else []), "--baseline", baseline, "--confirm", other.text, *facts]
    return shlex.join(["mlbench", "regress", *named, *margin_words(margin)])


def _newest(results: Path, new: str | None, baseline: Baseline) -> list[RunRecord]:
    """Return the newest session of the named runs without the baseline's, or of all runs made since the baseline."""
    from mlbench.records.store.selection import load_records, records_named

    if new is not None:
        return newest_session(without_those_of(baseline.records, records_named(results, new)))
    records = [record for record in load_records(results) if record.created > baseline.created]
    if not records:
        raise UsageError(f"no runs in {results} since baseline {baseline.name!r}.", hint="Run the suite again.")
    return newest_session(records)


def _refuse_the_baselines_own(records: Sequence[RunRecord], baseline: Baseline) -> None:
    """Raise `UsageError` where no run is new: comparing runs with themselves finds nothing."""
    if {record.run_id for record in records} <= {record.run_id for record in baseline.records}:
        raise UsageError(
            f"nothing to compare: all of these runs belong to baseline {baseline.name!r}.", hint="Run the suite again."
        )


def _show(comparison: Comparison, baseline: str, *, junit: Path | None, markdown: Path | None, as_json: bool) -> None:
    """Write the requested files, then print."""
    from mlbench.reports.comparison import (
        comparison_json,
        comparison_junit,
        comparison_markdown,
        print_comparison,
    )

    if junit:
        write_whole(junit, comparison_junit(comparison))
    if markdown:
        write_whole(markdown, comparison_markdown(comparison, title=f"mlbench against baseline {baseline}"))
    if as_json:
        echo_json(comparison_json(comparison))
    else:
        print_comparison(comparison, terminal_width())
