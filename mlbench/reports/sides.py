"""Two or more sides of a comparison in one picture: a bar for each, and its ratio to the base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlbench.comparison.backends import BackendComparison
from mlbench.comparison.compare import Cell, Comparison, Judged
from mlbench.comparison.spread import usual_mean
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.backend_answers import answer_lines
from mlbench.reports.bars import BAR_WIDTH, bar
from mlbench.reports.comparison import score_verdict
from mlbench.reports.text_table import WIDTH
from mlbench.reports.units import quantity

_GAP = "  "
_LEAST_BAR = 8
_TINY = 0.001
_LOWER_IS_BETTER = ("ns", "J")
"""Units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSide:
    """A side, compared with the base that all sides share."""

    name: str
    comparison: Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    name: str
    value: float
    shown: str
    standing: str


def sides_lines(
    base: str, sides: Sequence[NewSide], width: int | None = None, *, has_scores: bool = True
) -> Iterator[str]:
    """Yield the lines of the picture: a heading and a line per side, for each number of each kind of runs.

    ``has_scores``: whether scores are shown as well; a table of two sides has them.
    """
    for key in dict.fromkeys(cell.key for side in sides for cell in side.comparison.cells):
        found = [(side.name, cell) for side in sides for cell in side.comparison.cells if cell.key == key]
        for measure in dict.fromkeys(each.measure for _, cell in found for each in cell.speeds):
            yield from _speed_lines(base, measure, found, width or WIDTH)
        for score in dict.fromkeys(each.name for _, cell in found for each in cell.scores if has_scores):
            yield from _score_lines(base, score, found)
        for name in [side.name for side in sides if key not in {cell.key for cell in side.comparison.cells}]:
            yield f"  {name}: no such runs"
    for side in sides:
        yield from (f"{side.name}: the base has no {name}" for name in side.comparison.added)


def shared_name(cells: Sequence[Cell]) -> str:
    """Return the common part of the names of runs on both sides: ``resnet50 Offline fp32``."""
    names = [name.split() for cell in cells for name in (cell.base_name, cell.name)]
    return " ".join(words[0] for words in zip(*names, strict=False) if len(set(words)) == 1)


def backend_lines(
    compared: Sequence[BackendComparison], width: int | None = None, *, has_scores: bool = True
) -> Iterator[str]:
    """Yield the picture of each kind of runs on several backends, and sentences with the answer.

    The runs are those that were just made. ``has_scores`` is `sides_lines`'s.
    """
    for each in compared:
        sides = [NewSide(name=name, comparison=found) for name, found in each.others]
        yield from sides_lines(each.base, sides, width, has_scores=has_scores)
    yield from answer_lines(compared)


def _speed_lines(base: str, measure: str, found: Sequence[tuple[str, Cell]], width: int) -> Iterator[str]:
    judged = [(name, cell, each) for name, cell in found for each in cell.speeds if each.measure == measure]
    first = judged[0][2]
    better = "lower" if first.unit in _LOWER_IS_BETTER else "higher"
    shared = shared_name([cell for _, cell in found])
    yield f"{shared}, {measure}; {better} is better"
    rows = [_row(_label(base, found[0][1].base_name, shared), first.base, first.unit, "base")]
    rows += [_row(_label(name, cell.name, shared), each.new, each.unit, _standing(each)) for name, cell, each in judged]
    widths = [max(len(text) for text in column) for column in ([r.name for r in rows], [r.shown for r in rows])]
    largest = max(row.value for row in rows)
    beside = sum(widths) + max(len(row.standing) for row in rows) + 4 * len(_GAP)
    bar_width = max(_LEAST_BAR, min(BAR_WIDTH, width - beside))
    for row in rows:
        drawn = bar(row.value / largest, bar_width)
        yield f"  {row.name:<{widths[0]}}  {row.shown:>{widths[1]}}  {drawn}  {row.standing}"


def _label(side: str, runs: str, shared: str) -> str:
    """Return the name of a side, with the words that distinguish its runs."""
    known = {*shared.split(), side}
    return " ".join([side, *(word for word in runs.split() if word not in known)])


def _row(name: str, values: tuple[float, ...], unit: str, standing: str) -> _Row:
    value = usual_mean(values)
    return _Row(name=name, value=value, shown=quantity(value, unit), standing=standing)


def _standing(each: Judged) -> str:
    ratio = f"x {each.effect.ratio:.3f}" if each.effect else ""
    is_single = each.effect and not each.spread and len(each.base) == len(each.new) == 1
    return f"{ratio}, one run each" if is_single else f"{ratio} {each.verdict}".lstrip()


def _score_lines(base: str, score: str, found: Sequence[tuple[str, Cell]]) -> Iterator[str]:
    rows = [(name, cell, each) for name, cell in found for each in cell.scores if each.name == score]
    shown = [f"{base} {_score(rows[0][2].base)}"]
    shown += [f"{name} {_score(each.new)} ({score_verdict(cell, each)})" for name, cell, each in rows]
    yield f"  {score}: {', '.join(shown)}"


def _score(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value:.3f}" if not value or abs(value) >= _TINY else f"{value:.2g}"


def has_no_verdict(cell: Cell) -> bool:
    """Return whether a number of these runs has no verdict or only a suspected one."""
    return any(each.verdict in (SpeedVerdict.CANNOT_TELL, SpeedVerdict.SUSPECTED) for each in cell.speeds)
