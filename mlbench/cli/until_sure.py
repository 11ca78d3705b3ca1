"""Measuring interleaved until each cell has a verdict, and what is printed about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlbench.cli.budget import TimeForTurns
from mlbench.cli.output import echo_line, echo_wrapped
from mlbench.cli.run_maker import run_one
from mlbench.comparison.comparability import key_of
from mlbench.comparison.compare import Comparison, Judged, cell_name
from mlbench.comparison.confirmation import with_speeds
from mlbench.comparison.kinds import SPEED
from mlbench.comparison.measures import why_not_counted
from mlbench.comparison.sequential import (
    Outlook,
    compare_pairs_so_far,
    decisive_numbers,
    is_settled,
    measure_pair_noise,
)
from mlbench.discovery import Plugins
from mlbench.planning.expected_times import KnownTimes, newest_runs
from mlbench.planning.requests import RunRequest, resolve
from mlbench.records.run_record import RunRecord
from mlbench.records.store.selection import runs_like
from mlbench.reports.units import plural
from mlbench.reports.until_sure import TurnsAhead, outlook_line, unsettled_line
from mlbench.running.turns import Maker, tags_of_turns
from mlbench.running.until_sure import CellId, CellInTurns, measure_until_sure

_QUESTION = "until sure"
"""Tells the runs of this question from those of others about the same runs (`turns.tags_of_turns`)."""


@dataclass(slots=True, kw_only=True)
class UntilSure:
    """Cells that are measured interleaved until each has a verdict, and what is printed about them."""

    cells: Sequence[CellInTurns]
    margins: Mapping[str, float]
    """By kind of number."""
    budget: TimeForTurns
    go_on: Mapping[CellId, str]
    """The command line that goes on with what is stored of a cell."""
    is_for_programs: bool = False
    """Whether standard output is read by a program: then everything here goes to standard error."""
    _hopeless: dict[CellId, str] = field(default_factory=dict)
    """Why no turn could give these cells a verdict."""
    _silent: set[CellId] = field(default_factory=set)
    """Cells whose noise was unknown, and was not told yet."""

    def measure(self) -> None:
        """Make turns.

        Raises:
            IncomparableRunsError: runs of the two sides differ in something that is not listed.
        """
        self._announce(self._find_open())
        try:
            measure_until_sure(self.cells, self._find_open, time.monotonic() + self.budget.left_s)
        except KeyboardInterrupt:
            stored = sum(map(_count_pairs, self.cells))
            self._echo(f"{stored} pairs are stored. This goes on with them:", to_stderr=True)
            self._echo_commands(self.cells, to_stderr=True)
            raise

    @property
    def comparisons(self) -> Mapping[int, Comparison]:
        """Return the comparison of each side that has pairs, by its number; cells that ended in an error are left out.

        Raises:
            IncomparableRunsError: runs of the two sides differ in something that is not listed.
        """
        by_side: dict[int, list[CellInTurns]] = {}
        for cell in self.cells:
            if cell.by_number and not cell.error:
                by_side.setdefault(cell.id.side, []).append(cell)
        return {
            side: compare_pairs_so_far(
                [pair for cell in cells for pair in cell.pairs], across=cells[0].across, margins=self.margins
            )
            for side, cells in by_side.items()
        }

    def put_into(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """Return the comparisons of all sides with the speeds that turns measured."""
        found = self.comparisons
        return [with_speeds(each, found.get(side)) for side, each in enumerate(comparisons)]

    def close(self) -> None:
        """Print what a further hour would show of the cells that have no verdict, and the command that goes on."""
        comparisons = self.comparisons
        for cell in self.cells:
            if self._is_told(cell, comparisons) and (told := self._witnesses(cell, comparisons)):
                verdicts = ", ".join(f"{each.measure} is {each.verdict}" for each in told)
                self._echo(f"{cell.name}: wall time varies too much here, so processor time decided: {verdicts}.")
        left = [cell for cell in self.cells if not self._is_told(cell, comparisons)]
        more = [cell for cell in left if not cell.why_lost and cell.id not in self._hopeless]
        for cell in left:
            if cell in more:
                self._echo(unsettled_line(self._ahead(cell, more, comparisons)))
            else:
                self._echo(f"{cell.name}: given up: {cell.why_lost or self._hopeless[cell.id]}.")
        if more:
            self._echo("To go on with what is stored:")
            self._echo_commands(more)

    def _announce(self, open_now: Collection[CellId]) -> None:
        """Print what the budget can show of each cell without a verdict."""
        comparisons = self.comparisons
        left = [cell for cell in self.cells if cell.id in open_now]
        for cell in left:
            ahead = self._ahead(cell, left, comparisons)
            if ahead.outlook is None:
                self._silent.add(cell.id)
            self._echo(outlook_line(ahead, self.budget.left_s), to_stderr=True)
        if not left and self.cells:
            self._echo("No turn to make: the stored ones tell all that turns can tell.", to_stderr=True)

    def _find_open(self) -> Collection[CellId]:
        """Return the cells without a verdict that turns could give; say how much a pair differs once that is known."""
        comparisons = self.comparisons
        found = [cell for cell in self.cells if self._is_open(cell, comparisons)]
        for cell in found:
            ahead = self._ahead(cell, found, comparisons)
            if cell.id in self._silent and ahead.outlook:
                self._silent.remove(cell.id)
                self._echo(outlook_line(ahead, self.budget.left_s), to_stderr=True)
        return {cell.id for cell in found}

    def _is_open(self, cell: CellInTurns, comparisons: Mapping[int, Comparison]) -> bool:
        numbers = self._numbers(cell, comparisons)
        for each in numbers:
            if each.effect is None:
                self._hopeless[cell.id] = each.reason
        return cell.id not in self._hopeless and not self._is_told(cell, comparisons)

    def _is_told(self, cell: CellInTurns, comparisons: Mapping[int, Comparison]) -> bool:
        return is_settled(self._numbers(cell, comparisons))

    def _numbers(self, cell: CellInTurns, comparisons: Mapping[int, Comparison]) -> list[Judged]:
        """Return the numbers of a cell that decide."""
        cells = comparisons[cell.id.side].cells if cell.id.side in comparisons else ()
        return [
            each for its in cells if its.key == cell.id.key for each in decisive_numbers(its, cell.pairs, cell.asked)
        ]

    def _witnesses(self, cell: CellInTurns, comparisons: Mapping[int, Comparison]) -> list[Judged]:
        """Return the numbers that decide in place of the cell's speeds."""
        numbers = self._numbers(cell, comparisons)
        return [] if any(each.kind == SPEED.name for each in numbers) else numbers

    def _ahead(
        self, cell: CellInTurns, left: Sequence[CellInTurns], comparisons: Mapping[int, Comparison]
    ) -> TurnsAhead:
        """Return what is known of the turns of a cell to come, beside those of others."""
        tests = len([each for each in self.cells if each.id.side == cell.id.side])
        numbers = [each for each in self._numbers(cell, comparisons) if each.spread]
        outlook, known_by, name = None, "", cell.name
        if numbers:
            widest = max(numbers, key=lambda each: each.spread.between if each.spread else 0.0)
            name += "" if widest.kind == SPEED.name else f", {widest.measure}"
            judged = [number for each in comparisons[cell.id.side].cells for number in each.numbers]
            tests = sum(each.kind == widest.kind for each in judged)
            outlook, known_by = Outlook.of(widest, tests, self.margins[widest.kind]), plural(_count_pairs(cell), "turn")
        elif cell.noise:
            outlook = Outlook(noise=cell.noise.share, tests=tests, margin=self.margins[SPEED.name])
            known_by = plural(cell.noise.runs, "earlier run")
        return TurnsAhead(
            name=name,
            made=_count_pairs(cell),
            turn=cell.turn,
            round_s=sum(each.turn.seconds for each in left),
            outlook=outlook,
            known_by=known_by,
        )

    def _echo(self, text: str, *, to_stderr: bool = False) -> None:
        echo_wrapped(text, 2, to_stderr=to_stderr or self.is_for_programs)

    def _echo_commands(self, cells: Sequence[CellInTurns], *, to_stderr: bool = False) -> None:
        for line in dict.fromkeys(self.go_on[cell.id] for cell in cells):
            echo_line(f"  {line}", to_stderr=to_stderr or self.is_for_programs)


def plan_cells(
    kinds: Sequence[tuple[Sequence[RunRequest], Sequence[RunRecord]]],
    makers: Callable[[Sequence[RunRequest], Sequence[RunRecord]], tuple[Maker, Maker]],
    *,
    across: Sequence[str],
    results: Path,
    first_side: int = 0,
) -> list[CellInTurns]:
    """Return the cells of some kinds of runs: each new side of a kind with its base.

    Args:
        kinds: for each kind a request per side, and the run that it repeats, the base's first.
        makers: given a cell's requests and the runs that they repeat, returns how the runs of each side are made.
        across: facts in which the sides may differ.
        results: earlier runs there show how much a pair differs.
        first_side: the number of the first new side.
    """
    like: dict[tuple[str, ...], list[RunRecord]] = {key_of(run, ()): [] for _, runs in kinds for run in runs}
    for run in runs_like(results, [run for _, runs in kinds for run in runs]):
        like.get(key_of(run, ()), []).append(run)
    times = KnownTimes(record for _, record in newest_runs(kinds[0][0][0].results)) if kinds else KnownTimes()
    cells = []
    for (first, *others), (ours, *theirs) in kinds:
        for side, (request, run) in enumerate(zip(others, theirs, strict=True), first_side):
            base, new = makers((first, request), (ours, run))
            cell = CellInTurns(
                id=CellId(side=side, key=key_of(run, across)),
                name=cell_name(run),
                base=base,
                new=new,
                across=tuple(across),
                turn=times.expect_all((first, request)),
                noise=measure_pair_noise([like[key] for key in dict.fromkeys((key_of(ours, ()), key_of(run, ())))]),
            )
            cells.append(cell)
    return cells


def makers_here(requests: Sequence[RunRequest], records: Sequence[RunRecord]) -> tuple[Maker, Maker]:
    """Return how this installation makes the runs of both sides, under tags of this question about these runs."""
    plugins = Plugins.discover()
    tags = tags_of_turns(_QUESTION, *records)
    base, new = (maker_here(replace(each, tag=tag), plugins) for each, tag in zip(requests, tags, strict=True))
    return base, new


def maker_here(request: RunRequest, plugins: Plugins) -> Maker:
    """Return a request with this installation's way to make its runs."""
    resolved = resolve(request, plugins)
    return Maker(
        request=resolved,
        run=lambda each: run_one(replace(resolved, tag=each.tag, repeat=each.repeat, partner=each.partner), plugins),
    )


def _count_pairs(cell: CellInTurns) -> int:
    """Return how many of a cell's pairs count."""
    return sum(not any(map(why_not_counted, pair)) for pair in cell.pairs)
