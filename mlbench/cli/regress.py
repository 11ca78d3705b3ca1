"""``mlbench regress``: fail a CI job when runs are worse than the baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.completions import offer_baselines, offer_runs
from mlbench.cli.options import accuracy_margin_option, across_option, margin_option, results_option, word_options
from mlbench.cli.output import echo_json, echo_line, terminal_width

if TYPE_CHECKING:
    from mlbench.comparison.compare import Cell, Comparison
    from mlbench.comparison.speeds import Sides
    from mlbench.planning.requests import RunRequest
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
    across: tuple[str, ...],
    margin: float,
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
    from mlbench.comparison.sessions import newest_session
    from mlbench.comparison.with_history import compare_with_history
    from mlbench.records.store.baselines import read_baseline
    from mlbench.records.store.selection import records_named
    from mlbench.running.turns import Command

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
    if other_mlbench:
        comparison = _confirm(
            comparison,
            _Measuring(command=other_mlbench, pairs=pairs, results=results, across=across, word=word),
            base=stored.records,
            new=records,
        )
    _show(comparison, baseline, junit=junit, markdown=markdown, as_json=as_json)
    is_unsure = comparison.is_blind or (strict and bool(comparison.not_judged))
    if comparison.is_worse or is_unsure:
        return 1
    return SUSPECTED if comparison.suspected else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measuring:
    """How `_confirm` repeats runs."""

    command: Command
    pairs: int
    results: Path
    across: tuple[str, ...]
    word: OwnWord

    def requests(self, base: RunRecord, new: RunRecord) -> tuple[RunRequest, RunRequest]:
        """Return the requests that repeat both runs."""
        from mlbench.discovery import Plugins
        from mlbench.running.turns import request_by_word, tags_of_turns

        sides = zip((base, new), tags_of_turns(self.command.text, base, new), strict=True)
        plugins = Plugins.discover()
        one, other = (
            replace(request_by_word(record, self.results, plugins, self.word), tag=tag) for record, tag in sides
        )
        return one, other


def _confirm(
    comparison: Comparison, how: _Measuring, *, base: Sequence[RunRecord], new: Sequence[RunRecord]
) -> Comparison:
    """Repeat runs that look slower or have no verdict, interleaved, and return the comparison with the new speeds."""
    from mlbench.comparison.comparability import key_of, knowing
    from mlbench.comparison.compare import compare
    from mlbench.comparison.confirmation import cells_to_confirm, confirm

    cells = cells_to_confirm(comparison)
    ours, theirs = ({key_of(run, how.across): run for run in reversed(knowing(side))} for side in (base, new))
    sides = {}
    for cell in cells:
        with _left_as_it_was(cell):
            sides[cell.key] = how.requests(ours[cell.key], theirs[cell.key])
    asked = [cell for cell in cells if cell.key in sides]
    if cells and not asked:
        return comparison
    _announce(asked, how, list(sides.values()))
    measured = {cell.key: _measure_cell(cell, sides[cell.key], how) for cell in asked}
    made = {key: sides for key, sides in measured.items() if sides}
    if not made:
        return comparison
    in_turns = compare(
        [ours[key] for key in made],
        [run for each in made.values() for run in each.new],
        across=how.across,
        margin=comparison.margin,
        again=[run for each in made.values() for run in each.base],
    )
    return confirm(comparison, in_turns)


def _announce(cells: Sequence[Cell], how: _Measuring, sides: Sequence[tuple[RunRequest, RunRequest]]) -> None:
    """Print the runs that are repeated, the reason, and their duration."""
    from mlbench.planning.expected_times import KnownTimes, newest_runs
    from mlbench.reports.preflight import spell_time
    from mlbench.reports.units import plural
    from mlbench.running.turns import stored_pairs

    if not cells:
        echo_line("--confirm: no run to repeat: each speed has a verdict, and none is slower.", to_stderr=True)
        return
    for cell in cells:
        verdicts = ", ".join(f"{each.measure} {each.verdict}" for each in cell.speeds if each.is_open)
        echo_line(
            f"{cell.name}: measured again, interleaved, {how.pairs} runs of each side ({verdicts})", to_stderr=True
        )
    stored = [sum(number <= how.pairs for number in stored_pairs(*pair)) for pair in sides]
    left = [request for pair, done in zip(sides, stored, strict=True) for request in pair * (how.pairs - done)]
    known = KnownTimes(record for _, record in newest_runs(sides[0][0].results))
    there = f"; {2 * sum(stored)} are stored from an earlier try" if any(stored) else ""
    takes = f", {spell_time(known.expect_all(left))}" if left else ""
    echo_line(f"{plural(len(left), 'run')} to make{takes}{there}.", to_stderr=True)


def _measure_cell(cell: Cell, sides: tuple[RunRequest, RunRequest], how: _Measuring) -> Sides | None:
    """Repeat a run of each side, interleaved; None where that fails and nothing looked slower."""
    with _left_as_it_was(cell):
        return _measure(*sides, how)
    return None


@contextmanager
def _left_as_it_was(cell: Cell) -> Iterator[None]:
    """Print an error of the block and continue: the cell keeps its old result.

    Raises:
        MlbenchError: the block raised it, and the cell shows a loss.
    """
    from mlbench.comparison.confirmation import has_loss
    from mlbench.errors import MlbenchError

    try:
        yield
    except MlbenchError as error:
        if has_loss(cell):
            raise
        echo_line(f"{cell.name}: could not be measured again, so the old result stays: {error}", to_stderr=True)


def _measure(base: RunRequest, new: RunRequest, how: _Measuring) -> Sides:
    """Repeat a run of each side, interleaved.

    Raises:
        MlbenchError: a run failed, or cannot be stored.
    """
    from mlbench.cli.run_maker import run_and_print
    from mlbench.discovery import Plugins
    from mlbench.errors import StorageError
    from mlbench.planning.requests import resolve
    from mlbench.reports.console import one_line
    from mlbench.running.turns import Maker, measure_in_turns

    plugins = Plugins.discover()
    resolved = resolve(new, plugins)

    def run_other(request: RunRequest) -> RunRecord:
        what = f"{request.workload} {request.backend} {request.scenario}"
        echo_line(f"{what}: run {request.repeat} of {how.pairs} with the baseline's mlbench", to_stderr=True)
        record = how.command.run(request)
        echo_line(f"{one_line(record)} (baseline's)", to_stderr=True)
        return record

    def run_here(request: RunRequest) -> RunRecord:
        if records := run_and_print([replace(resolved, repeat=request.repeat, tag=request.tag)], plugins):
            return records[0]
        raise StorageError("an interleaved run cannot be stored, so nothing can be compared.", hint="Free disk space.")

    return measure_in_turns(
        Maker(request=base, run=run_other),
        Maker(request=resolved, run=run_here),
        how.pairs,
    )


def _newest(results: Path, new: str | None, baseline: Baseline) -> list[RunRecord]:
    """Return the newest session of the named runs without the baseline's, or of all runs made since the baseline."""
    from mlbench.comparison.sessions import newest_session, without_those_of
    from mlbench.errors import UsageError
    from mlbench.records.store.selection import load_records, records_named

    if new is not None:
        return newest_session(without_those_of(baseline.records, records_named(results, new)))
    records = [record for record in load_records(results) if record.created > baseline.created]
    if not records:
        raise UsageError(f"no runs in {results} since baseline {baseline.name!r}.", hint="Run the suite again.")
    return newest_session(records)


def _refuse_the_baselines_own(records: Sequence[RunRecord], baseline: Baseline) -> None:
    """Raise `UsageError` where no run is new: comparing runs with themselves finds nothing."""
    from mlbench.errors import UsageError

    if {record.run_id for record in records} <= {record.run_id for record in baseline.records}:
        raise UsageError(
            f"nothing to compare: all of these runs belong to baseline {baseline.name!r}.", hint="Run the suite again."
        )


def _show(comparison: Comparison, baseline: str, *, junit: Path | None, markdown: Path | None, as_json: bool) -> None:
    """Write the requested files, then print."""
    from mlbench.records.store.whole_file import write_whole
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
