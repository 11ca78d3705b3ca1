"""Measuring results again, interleaved with another installation of mlbench: ``mlbench regress --confirm``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from mlbench.cli.budget import TimeForTurns
from mlbench.cli.output import echo_line
from mlbench.cli.until_sure import UntilSure, maker_here, plan_cells
from mlbench.comparison.comparability import key_of, knowing
from mlbench.comparison.compare import Cell, Comparison, compare
from mlbench.comparison.confirmation import cells_to_confirm, confirm, has_loss
from mlbench.comparison.speeds import Sides
from mlbench.discovery import Plugins
from mlbench.errors import MlbenchError
from mlbench.planning.expected_times import KnownTimes, newest_runs
from mlbench.planning.requests import RunRequest
from mlbench.records.run_record import RunRecord
from mlbench.reports.console import one_line
from mlbench.reports.preflight import spell_time
from mlbench.reports.units import plural
from mlbench.running.turns import Command, Maker, measure_in_turns, request_by_word, stored_pairs, tags_of_turns
from mlbench.settings.layers import OwnWord


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirming:
    """How `confirm_in_turns` repeats runs."""

    command: Command
    pairs: int
    results: Path
    across: tuple[str, ...]
    word: OwnWord
    until: TimeForTurns | None = None
    """The time for turns until each cell has a verdict; None: as many pairs as said."""
    go_on: str = ""
    """The command line that goes on after that time, without the options for it."""
    is_for_programs: bool = False
    """Whether standard output is read by a program."""

    def requests(self, base: RunRecord, new: RunRecord) -> tuple[RunRequest, RunRequest]:
        """Return the requests that repeat both runs."""
        sides = zip((base, new), tags_of_turns(self.command.text, base, new), strict=True)
        plugins = Plugins.discover()
        one, other = (
            replace(request_by_word(record, self.results, plugins, self.word), tag=tag) for record, tag in sides
        )
        return one, other


def confirm_in_turns(
    comparison: Comparison, how: Confirming, *, base: Sequence[RunRecord], new: Sequence[RunRecord]
) -> tuple[Comparison, UntilSure | None]:
    """Repeat runs that look slower or have no verdict, interleaved, and return the comparison with the new speeds.

    With it come the cells that were measured until a verdict; None where the number of pairs was given.
    """
    cells = cells_to_confirm(comparison)
    ours, theirs = ({key_of(run, how.across): run for run in reversed(knowing(side))} for side in (base, new))
    asked = []
    for cell in cells:
        with _left_as_it_was(cell):
            records = ours[cell.key], theirs[cell.key]
            asked.append(_Asked(cell=cell, records=records, requests=how.requests(*records)))
    if cells and not asked:
        return comparison, None
    if asked and how.until:
        measured = _measure_until_sure(comparison, asked, how, how.until)
        in_turns = measured.comparisons.get(0)
    else:
        _announce(asked, how)
        measured, in_turns = None, _measure_pairs(comparison, asked, how)
    return (confirm(comparison, in_turns) if in_turns else comparison), measured


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A cell to measure again."""

    cell: Cell
    records: tuple[RunRecord, RunRecord]
    """The newest run of each side."""
    requests: tuple[RunRequest, RunRequest]
    """Those that repeat them."""


def _measure_pairs(comparison: Comparison, asked: Sequence[_Asked], how: Confirming) -> Comparison | None:
    """Return the comparison of so many pairs of each cell; None where none could be made."""
    made = [(each, sides) for each in asked if (sides := _measure_cell(each, how))]
    if not made:
        return None
    return compare(
        [each.records[0] for each, _ in made],
        [run for _, sides in made for run in sides.new],
        across=how.across,
        margin=comparison.margins,
        again=[run for _, sides in made for run in sides.base],
    )


def _measure_until_sure(
    comparison: Comparison, asked: Sequence[_Asked], how: Confirming, budget: TimeForTurns
) -> UntilSure:
    """Repeat both sides of each cell until it has a verdict or the budget is spent; a cell that fails is left out.

    Raises:
        MlbenchError: a run of a cell that shows a loss cannot be made.
    """
    for each in asked:
        _tell_why(each.cell, "until it has a verdict")
    kinds = [(each.requests, each.records) for each in asked]
    cells = plan_cells(kinds, lambda requests, _: _makers(requests, how), across=how.across, results=how.results)
    for each, cell in zip(asked, cells, strict=True):
        cell.asked = frozenset(number.measure for number in each.cell.unsettled)
    measured = UntilSure(
        cells=cells,
        margins=comparison.margins,
        budget=budget,
        go_on=dict.fromkeys((cell.id for cell in cells), f"{how.go_on} {shlex.join(budget.options(how.results))}"),
        is_for_programs=how.is_for_programs,
    )
    measured.measure()
    for each, cell in zip(asked, cells, strict=True):
        with _left_as_it_was(each.cell):
            if cell.error:
                raise cell.error
    return measured


def _tell_why(cell: Cell, how_often: str) -> None:
    verdicts = ", ".join(f"{each.measure} {each.verdict}" for each in cell.unsettled)
    echo_line(f"{cell.name}: measured again, interleaved, {how_often} ({verdicts})", to_stderr=True)


def _announce(asked: Sequence[_Asked], how: Confirming) -> None:
    """Print the runs that are repeated, the reason, and their duration."""
    if not asked:
        echo_line("--confirm: no run to repeat: each speed has a verdict, and none is slower.", to_stderr=True)
        return
    for each in asked:
        _tell_why(each.cell, f"{how.pairs} runs of each side")
    sides = [each.requests for each in asked]
    stored = [sum(number <= how.pairs for number in stored_pairs(*pair)) for pair in sides]
    left = [request for pair, done in zip(sides, stored, strict=True) for request in pair * (how.pairs - done)]
    known = KnownTimes(record for _, record in newest_runs(sides[0][0].results))
    there = f"; {2 * sum(stored)} are stored from an earlier try" if any(stored) else ""
    takes = f", {spell_time(known.expect_all(left))}" if left else ""
    echo_line(f"{plural(len(left), 'run')} to make{takes}{there}.", to_stderr=True)


def _measure_cell(asked: _Asked, how: Confirming) -> Sides | None:
    """Repeat a run of each side, interleaved; None where that fails and nothing looked slower."""
    with _left_as_it_was(asked.cell):
        return measure_in_turns(*_makers(asked.requests, how), how.pairs)
    return None


@contextmanager
def _left_as_it_was(cell: Cell) -> Iterator[None]:
    """Print an error of the block and continue: the cell keeps its old result.

    Raises:
        MlbenchError: the block raised it, and the cell shows a loss.
    """
    try:
        yield
    except MlbenchError as error:
        if has_loss(cell):
            raise
        echo_line(f"{cell.name}: could not be measured again, so the old result stays: {error}", to_stderr=True)


def _makers(requests: Sequence[RunRequest], how: Confirming) -> tuple[Maker, Maker]:
    """Return how runs of each side are made: the base's by the other command, the new side's here."""
    base, new = requests
    of_all = "" if how.until else f" of {how.pairs}"

    def run_other(request: RunRequest) -> RunRecord:
        what = f"{request.workload} {request.backend} {request.scenario}"
        echo_line(f"{what}: run {request.repeat}{of_all} with the baseline's mlbench", to_stderr=True)
        record = how.command.run(request)
        echo_line(f"{one_line(record)} (baseline's)", to_stderr=True)
        return record

    return Maker(request=base, run=run_other), maker_here(new, Plugins.discover())
