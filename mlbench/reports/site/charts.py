"""A metric over time: sessions as dots, levels as lines, changes of level as marks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair

from mlbench.comparison.history import History, Level, Point, Step
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.records.store.run_names import short_id
from mlbench.reports.comparison import interval_of
from mlbench.reports.html.drawing import INK, WARN, Figure, Mark, moment_axis, points, svg_of
from mlbench.reports.table import TableCell, table
from mlbench.reports.units import TIMES, number_of, plural, quantity

MOST_DOTS = 60
"""Most dots of a chart; with more sessions each dot stands for several."""

_HEIGHT = 150
TONES = {
    **dict.fromkeys((SpeedVerdict.FASTER, SpeedVerdict.BETTER), "good"),
    **dict.fromkeys((SpeedVerdict.SLOWER, SpeedVerdict.WORSE), "bad"),
}
"""Classes of the style sheet."""


def history_figure(title: str, history: History) -> Figure:
    """Return the chart of a history, with a table of its levels."""
    steps = [_mark(history, step) for step in history.steps]
    return Figure(
        title=title,
        note=_note(history),
        views={"": svg_of(*_layers(history, steps), height=_HEIGHT)},
        numbers=table(
            f"Levels of {title}",
            ["since, UTC", "runs#", "level#", "change"],
            [_level_row(history, *each) for each in zip(history.levels, (None, *history.steps), strict=True)],
        ),
    )


def _note(history: History) -> str:
    """Return the newest level, the spread between sessions, and the reason if steps were not searched."""
    level, count = history.levels[-1], history.sessions
    better = "Higher" if history.higher_is_better else "Lower"
    noise = f" {history.spread:.1%} from session to session." if count > 1 else ""
    reason = f" Steps were not searched: {history.reason}." if history.reason else ""
    return f"Now {quantity(level.value, history.unit)}. {better} is better. {plural(count, 'session')}.{noise}{reason}"


def _layers(history: History, steps: Sequence[Mark]) -> list[Any]:
    scale_ns, unit = _scale(history)
    dots = _dots(history, scale_ns)
    value = altair.Y("y:Q").title(unit).scale(domain=_range(dots)).axis(tickCount=4, format=",~r")
    levels = [_level_line(history, level, scale_ns) for level in history.levels]
    marks = points(dots).mark_point(size=22, color="var(--series-1)", opacity=0.75).encode(x=moment_axis(dots), y=value)
    lines = points(levels).mark_rule(strokeWidth=2.2, color=INK)
    found = [marks, lines.encode(altair.X("x:T"), altair.X2("x2"), altair.Y("y:Q"))]
    for step, mark in zip(history.steps, steps, strict=True):
        rule = points([mark]).mark_rule(
            strokeDash=[3, 3], color=WARN if TONES[step.verdict] == "bad" else "var(--good)"
        )
        found.append(rule.encode(altair.X("x:T")))
    return found


def _range(dots: Sequence[Mark]) -> list[float]:
    """Return the range of the axis: all dots, and at least 10 % around their middle, so that noise looks small."""
    low, high = (pick(dot.y for dot in dots) for pick in (min, max))
    middle = (low + high) / 2
    return [min(low - 0.01 * middle, 0.95 * middle), max(high + 0.01 * middle, 1.05 * middle)]


def _scale(history: History) -> tuple[float, str]:
    """Return the divisor of values on the axis, and their unit after it."""
    if history.unit != "ns":
        return 1.0, history.unit
    middle = history.levels[-1].value
    return next(((size, unit) for size, unit in TIMES if middle >= size), TIMES[-1])


def _dots(history: History, scale: float) -> list[Mark]:
    """Return a dot per point, or per group of neighbours of one level if there are too many."""
    width = math.ceil(len(history.points) / MOST_DOTS)
    groups = [
        history.points[start : min(start + width, level.last + 1)]
        for level in history.levels
        for start in range(level.first, level.last + 1, width)
    ]
    return [_dot(group, history.unit, scale) for group in groups]


def _dot(group: Sequence[Point], unit: str, scale: float) -> Mark:
    value = math.exp(math.fsum(math.log(point.value) for point in group) / len(group))
    tag = f", {group[0].tag}" if group[0].tag and len(group) == 1 else ""
    mean = f", mean of {len(group)} points" if len(group) > 1 else f"{tag}, run {short_id(group[0].run_id)}"
    first = group[0].created
    when = math.fsum(point.created.timestamp() for point in group) / len(group)
    return Mark(x=when * 1000, y=value / scale, text=f"{first:%Y-%m-%d %H:%M}: {quantity(value, unit)}{mean}")


def _level_line(history: History, level: Level, scale: float) -> Mark:
    """Return the line of a level, from its first point to the next level's, so that a step is vertical."""
    last = min(level.last + 1, len(history.points) - 1)
    return Mark(
        x=history.points[level.first].created.timestamp() * 1000,
        x2=history.points[last].created.timestamp() * 1000,
        y=level.value / scale,
        text=f"level {quantity(level.value, history.unit)}",
    )


def _mark(history: History, step: Step) -> Mark:
    point = history.points[step.index]
    when = point.created.timestamp() * 1000
    changed = "; ".join(map(str, step.differences)) or "nothing else is known to have changed"
    return Mark(
        x=when,
        text=f"{point.created:%Y-%m-%d %H:%M}: x {step.effect.ratio:.3f}, {step.verdict}; {changed}",
    )


def _level_row(history: History, level: Level, step: Step | None) -> list[TableCell | str]:
    first = history.points[level.first].created
    count = sum(point.runs for point in history.points[level.first : level.last + 1])
    since = TableCell(f"{first:%Y-%m-%d}", detail=f"{first:%H:%M}")
    change: TableCell | str = ""
    if step:
        told, tone = f"{step.verdict}, x {step.effect.ratio:.3f}", TONES.get(step.verdict, "")
        change = TableCell(told, detail=interval_of(step.effect), tone=tone)
    return [since, number_of(count), quantity(level.value, history.unit), change]
