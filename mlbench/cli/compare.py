"""``mlbench compare``: compare sets of runs, and tell differences from noise."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlbench.cli.budget import TimeForTurns, margin_words, until_sure_options
from mlbench.cli.completions import offer_runs
from mlbench.cli.options import accuracy_margin_option, across_option, margin_option, results_option, word_options
from mlbench.cli.output import echo, echo_json, echo_line, echo_wrapped, terminal_width
from mlbench.comparison.sessions import without_those_of
from mlbench.contracts.scenario import MOST_REPEATS
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.reports.preflight import spell_time

if TYPE_CHECKING:
    from mlbench.cli.until_sure import UntilSure
    from mlbench.comparison.compare import Comparison
    from mlbench.records.run_record import RunRecord
    from mlbench.running.turns import MadeAgain
    from mlbench.settings.layers import OwnWord

OFFERED = 5
"""Number of runs of each side that a user is offered."""


@click.command("compare")
@click.argument("base", shell_complete=offer_runs)
@click.argument("new", nargs=-1, required=True, metavar="NEW...", shell_complete=offer_runs)
@across_option
@margin_option
@accuracy_margin_option
@results_option
@word_options
@click.option(
    "--run", "measures", is_flag=True, help="BASE and NEW are suite files: make their runs first, interleaved."
)
@click.option(
    "--measure",
    "pairs",
    type=click.IntRange(3, MOST_REPEATS),
    metavar="N",
    help="First repeat the newest run of each side, interleaved, N times each, and compare the speeds of these.",
)
@until_sure_options
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; of several NEW an array.")
def command(
    base: str,
    new: tuple[str, ...],
    across: tuple[str, ...],
    margin: dict[str, float],
    accuracy_margin: float,
    results: Path,
    word: OwnWord,
    measures: bool,
    pairs: int | None,
    until: TimeForTurns | None,
    markdown: bool,
    as_json: bool,
) -> int:
    """Compare each NEW with BASE: a run, a folder of runs, a baseline or a tag. Several NEW make one picture.

    Repeats within one session resemble each other, so a change is compared with the spread between sessions: earlier
    runs of the same kind in the results folder, or interleaved runs of both sides, show it. --run measures two suite
    files now, interleaved, and compares across the facts in which the files differ. If a verdict needs more runs, their
    command is printed, and on a terminal you are asked whether to make them now. Exit
    status: 0, or 1 when the sides cannot be compared.
    """
    from mlbench.records.store.selection import records_named
    from mlbench.settings.layers import OwnWord

    if until and pairs:
        raise UsageError("--measure is given together with --until-sure.", hint="Give one of them.")
    if measures:
        if pairs or len(new) > 1:
            raise UsageError("--run takes two suite files and no --measure.", hint="Set `repeats` in the files.")
        ours, theirs, differing = _measure_in_turns(Path(base), Path(new[0]), results, is_once=bool(until))
        sides, across = [ours, theirs], (*across, *differing)
        base, new, word = ours[0].tag, (theirs[0].tag,), OwnWord(trusts=True)  # the files are the user's own
    else:
        ours, *others = (records_named(results, name) for name in (base, *new))
        sides = [ours, *(without_those_of(ours, each) for each in others)]
    question = Question(
        names=(base, *new), across=across, margin=margin, accuracy_margin=accuracy_margin, results=results, word=word
    )
    comparisons = question.compare(sides)
    if pairs:
        comparisons = question.measure(comparisons, question.plan(sides, comparisons, wants_all=True), pairs)
    measured = None
    if until:
        measured = question.ask(question.plan(sides, comparisons, wants_all=True), until, as_json or markdown)
        comparisons = measured.put_into(comparisons)
    if as_json or markdown:
        _print_for_programs(question, comparisons, as_json=as_json)
    elif measures or pairs or until:
        _print(question, comparisons)
    else:
        print_and_offer(question, sides, comparisons)
    if measured:
        measured.close()
    return 0


_MOST_BARS = 4
"""So many numbers of two sides are drawn above the table that has them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The arguments of the command."""

    names: tuple[str, ...]
    """The sides' names, the base first."""
    across: tuple[str, ...]
    margin: Mapping[str, float]
    """By kind of number, as far as given."""
    accuracy_margin: float
    results: Path
    word: OwnWord
    """The user's permission and settings for runs that are repeated."""

    def compare(self, sides: Sequence[Sequence[RunRecord]]) -> list[Comparison]:
        """Return each side but the first, compared with the first."""
        from mlbench.comparison.with_history import compare_with_history

        return [
            compare_with_history(
                self.results,
                sides[0],
                side,
                across=self.across,
                margin=self.margin,
                accuracy_margin=self.accuracy_margin,
            )
            for side in sides[1:]
        ]

    def plan(
        self, sides: Sequence[Sequence[RunRecord]], comparisons: Sequence[Comparison], *, wants_all: bool = False
    ) -> MadeAgain:
        """Return the runs to repeat: those without a verdict, or all that have a speed."""
        from mlbench.reports.sides import has_no_verdict
        from mlbench.running.turns import plan_again

        cells = [cell for comparison in comparisons for cell in comparison.cells if cell.speeds]
        keys = dict.fromkeys(cell.key for cell in cells if wants_all or has_no_verdict(cell))
        return plan_again(
            sides, list(keys), self.across, results=self.results, plugins=Plugins.discover(), word=self.word
        )

    def measure(self, comparisons: Sequence[Comparison], again: MadeAgain, count: int) -> list[Comparison]:
        """Repeat runs, interleaved, and return the comparisons with the speeds of these."""
        from mlbench.cli.run_maker import run_and_print
        from mlbench.comparison.confirmation import with_speeds
        from mlbench.planning.requests import resolve

        _demand_requests(again)
        plugins = Plugins.discover()
        requests = [resolve(each, plugins) for each in again.all_requests(count)]
        made = again.split(run_and_print(requests, plugins), count)
        return [
            with_speeds(comparison, measured)
            for comparison, measured in zip(comparisons, self.compare(made), strict=True)
        ]

    def ask(self, again: MadeAgain, budget: TimeForTurns, is_for_programs: bool) -> UntilSure:
        """Repeat runs, interleaved, until each cell has a verdict or the budget is spent."""
        from mlbench.cli.until_sure import UntilSure, makers_here, plan_cells
        from mlbench.comparison.kinds import margins_of

        _demand_requests(again)
        for reason in again.reasons:
            echo_wrapped(f"Not measured: {reason}.", 2, to_stderr=True)
        kinds = list(zip(again.requests, again.records, strict=True))
        cells = plan_cells(kinds, makers_here, across=self.across, results=self.results)
        asked = UntilSure(
            cells=cells,
            margins=margins_of(self.margin),
            budget=budget,
            go_on=dict.fromkeys((cell.id for cell in cells), self.command(*budget.options(self.results))),
            is_for_programs=is_for_programs,
        )
        asked.measure()
        return asked

    def command(self, *how: str) -> str:
        """Return the command line that measures, this way."""
        facts = [word for fact in self.across for word in ("--across", fact)]
        facts += ["--trust"] if self.word.trusts else []
        return shlex.join(["mlbench", "compare", *self.names, *facts, *margin_words(self.margin), *how])


def print_and_offer(
    question: Question, sides: Sequence[Sequence[RunRecord]], comparisons: Sequence[Comparison]
) -> None:
    """Print comparisons, and the command for runs that a verdict needs; on a terminal, ask whether to make them."""
    from mlbench.planning.expected_times import KnownTimes

    _print(question, comparisons)
    again = question.plan(sides, comparisons)
    if again.requests:
        time = KnownTimes(run for side in sides for run in side).expect_all(again.all_requests(OFFERED))
        missing = "A verdict needs interleaved runs of both sides."
        echo_wrapped(f"{missing} {OFFERED} of each take {spell_time(time)}:", 2)
        echo_line(f"  {question.command('--measure', str(OFFERED))}")
        if _has_terminal() and click.confirm("Measure them now?", default=False):
            _print(question, question.measure(comparisons, again, OFFERED))
    for reason in again.reasons:
        echo_wrapped(f"A verdict needs runs that cannot be repeated here: {reason}.", 2)


def _demand_requests(again: MadeAgain) -> None:
    """Raise `UsageError` where no run can be repeated."""
    if not again.requests:
        reason = "; ".join(again.reasons) or "the sides have no kind of run in common"
        hint = "Compare stored runs alone; `mlbench regress --confirm` measures with another installation."
        raise UsageError(f"no run can be repeated here: {reason}.", hint=hint)


def _has_terminal() -> bool:
    """Return whether a user is at the terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def _print(question: Question, comparisons: Sequence[Comparison]) -> None:
    from mlbench.reports.comparison import comparison_notes, print_comparison
    from mlbench.reports.sides import NewSide, sides_lines

    numbers = sum(len(cell.speeds) for comparison in comparisons for cell in comparison.cells)
    has_table = len(comparisons) == 1
    if not has_table or numbers <= _MOST_BARS:
        base, *names = question.names
        sides = [NewSide(name=name, comparison=each) for name, each in zip(names, comparisons, strict=True)]
        for line in sides_lines(base, sides, terminal_width(), has_scores=not has_table):
            echo_wrapped(line, 4)
    if has_table:
        print_comparison(comparisons[0], terminal_width())
        return
    for note in dict.fromkeys(note for comparison in comparisons for note in comparison_notes(comparison)):
        echo_wrapped(f"  {note}", 4)


def _print_for_programs(question: Question, comparisons: Sequence[Comparison], *, as_json: bool) -> None:
    from mlbench.reports.comparison import comparison_json, comparison_markdown

    base, *names = question.names
    if as_json:
        texts = [comparison_json(comparison) for comparison in comparisons]
        echo_json(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
        return
    pages = zip(names, comparisons, strict=True)
    echo("\n".join(comparison_markdown(each, title=f"{name} against {base}") for name, each in pages))


def _measure_in_turns(
    base: Path, new: Path, results: Path, *, is_once: bool
) -> tuple[list[RunRecord], list[RunRecord], tuple[str, ...]]:
    """Make the runs of two suites interleaved; return both sides, and the facts in which the files differ.

    ``is_once``: each run once, whatever repeats the files say.
    """
    from mlbench.cli.run_maker import run_and_print
    from mlbench.planning.run_plan import plan_turns

    plugins = Plugins.discover()
    plan = plan_turns(base, new, plugins, results=results)
    requests = [each for each in plan.requests if each.repeat == 1 or not is_once]
    return *plan.sides(run_and_print(requests, plugins)), plan.differing
