"""Charts over many runs: results over time, and comparisons of two sides."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import altair

from mlbench.comparison.compare import Comparison, Judged
from mlbench.comparison.measures import Measure, measures_of
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_names import short_id
from mlbench.reports.comparison import interval_of
from mlbench.reports.html.drawing import (
    FAINT,
    INK,
    SOFT,
    WARN,
    WIDTH,
    Figure,
    Mark,
    Palette,
    joined,
    moment_axis,
    points,
    svg_of,
    time_axis,
)
from mlbench.reports.summary import Combination
from mlbench.reports.table import table
from mlbench.reports.units import quantity

HISTORY_LEAST = 3
"""Fewest runs of a combination for a trend chart."""

_HISTORY_MOST = 200
"""Most points of a series in a chart of this width."""

_TONES = {
    SpeedVerdict.FASTER: "var(--good)",
    SpeedVerdict.SLOWER: WARN,
    SpeedVerdict.SUSPECTED: WARN,
    SpeedVerdict.SAME: INK,
    SpeedVerdict.CANNOT_TELL: SOFT,
}
_SIGNS = ("triangle-right", "triangle-left", "diamond", "circle", "square")
_RATIOS = (0.01, 0.1, 0.2, 0.5, 0.8, 0.9, 1.0, 1.1, 1.25, 2.0, 5.0, 10.0, 100.0)


def history_figures(combinations: Sequence[Combination], palette: Palette, steps: Collection[str]) -> list[Figure]:
    """Return a chart over runs of each number that comparisons use; none with too few runs.

    Args:
        combinations: of one workload in one scenario.
        palette: colours of the page.
        steps: ids of the first runs of new levels; they are marked.
    """
    courses: dict[str, list[_Point]] = {}
    for each in combinations:
        if len(each.counted) >= HISTORY_LEAST:
            for run in each.counted[-_HISTORY_MOST:]:
                for measure in measures_of(run):
                    point = _Point(each.series, run, measure, palette.links.get(each.name, ""))
                    courses.setdefault(measure.name, []).append(point)
    return [_history_figure(combinations[0].scenario, course, palette, steps) for course in courses.values()]


@dataclass(frozen=True, slots=True)
class _Point:
    series: str
    run: RunRecord
    measure: Measure
    link: str

    @property
    def value(self) -> str:
        return quantity(self.measure.value, self.measure.unit)

    @property
    def name(self) -> str:
        """The short id of the run."""
        return short_id(self.run.run_id)

    def mark(self, told: str) -> Mark:
        """Return the point to draw."""
        when = self.run.created.timestamp() * 1000
        return Mark(series=self.series, x=when, y=self.measure.value, text=f"{self.series}, {told}", link=self.link)


def _history_figure(scenario: str, found: Sequence[_Point], palette: Palette, steps: Collection[str]) -> Figure:
    first = found[0].measure
    rows = [each.mark(f"run {each.name}, {each.run.created:%Y-%m-%d %H:%M}: {each.value}") for each in found]
    marked = [each.mark(f"step at {each.run.created:%Y-%m-%d %H:%M}") for each in found if each.run.run_id in steps]
    moment = moment_axis(rows, "begin of the run, UTC")
    if first.unit == "ns":
        value = time_axis([row.y for row in rows], first.name)
    else:
        value = altair.Y("y:Q").title(first.unit).scale(zero=True).axis(tickCount=5, format=",~f")
    layers = joined(rows, moment, value, palette, opacity=0.5)
    if marked:
        upright = points(marked).mark_rule(strokeDash=[2, 3])
        layers.append(upright.encode(x=moment, color=palette.colour_channel()))
    direction = "Higher" if first.higher_is_better else "Lower"
    title = f"{scenario}: {first.name}, run by run"
    return Figure(
        title=title,
        note=f"All valid runs, in order of time. {direction} is better."
        + (" A dotted line marks the first run of a new level." if marked else ""),
        views={"": svg_of(*layers)},
        numbers=table(
            title,
            ["series", "begin, UTC", "run", f"{first.name}#"],
            [[each.series, f"{each.run.created:%Y-%m-%d %H:%M:%S}", each.name, each.value] for each in found],
        ),
    )


def comparison_figure(comparison: Comparison) -> Figure | None:
    """Return each number's speed relative to the base, with its interval; None if nothing could be compared."""
    every = ((f"{cell.name}, {each.measure}", each) for cell in comparison.cells for each in cell.speeds)
    rows = [_effect(name, each) for name, each in every if each.effect]
    if not rows:
        return None
    ratio = _ratio_axis(rows, comparison.margin)
    place = altair.Y("name:N").title(None).sort([row.name for row in rows]).axis(None)
    verdicts = [str(verdict) for verdict in _TONES]
    colour = altair.Color("verdict:N").scale(domain=verdicts, range=list(_TONES.values())).legend(None)
    shape = altair.Shape("verdict:N").scale(domain=verdicts, range=list(_SIGNS)).legend(None)
    margin = {"low": 1 / (1 + comparison.margin), "high": 1 + comparison.margin, "text": "margin"}
    base = points(rows).encode(y=place)
    bounded = points([row for row in rows if row.low is not None]).encode(y=place, color=colour)
    drawn = svg_of(
        points([margin]).mark_rect(color=FAINT, opacity=0.5, aria=False).encode(x=altair.X("low:Q"), x2="high:Q"),
        points([{"one": 1, "text": ""}]).mark_rule(color=SOFT, aria=False).encode(x=altair.X("one:Q")),
        bounded.mark_rule(strokeWidth=2, aria=False).encode(x=altair.X("low:Q"), x2="high:Q"),
        base.mark_point(size=70).encode(x=ratio, color=colour, shape=shape),
        base.mark_text(align="left", dy=-14, color=SOFT, aria=False, limit=WIDTH - 20).encode(
            x=altair.value(0), text="name:N"
        ),
        height=70 + 44 * len(rows),
    )
    return Figure(
        title="Speed against the base",
        note="Points are ratios, lines are 95 % intervals. Right of 1 is faster. "
        f"Within the band of {comparison.margin:.0%} a change counts as the same.",
        views={"": drawn},
        numbers=table(
            "Speed against the base",
            ["what", "speed#", "interval#", "verdict"],
            [[row.name, f"x {row.ratio:.3f}", row.interval, row.verdict] for row in rows],
        ),
    )


def _ratio_axis(rows: Sequence[_Effect], margin: float) -> altair.X:
    """Return a logarithmic axis around 1 that holds all intervals, and the band of the margin."""
    known = [each for row in rows for each in (row.low, row.ratio, row.high) if each is not None]
    reach = max(*(abs(math.log(value)) for value in known), math.log(1 + 2 * margin)) * 1.1
    low, high = math.exp(-reach), math.exp(reach)
    is_wide = reach > math.log(3)
    ticks = [each for each in _RATIOS if low <= each <= high and not (is_wide and 0.5 < each < 2 and each != 1)]
    return (
        altair.X("ratio:Q")
        .title("times as fast as the base, logarithmic")
        .scale(type="log", domain=[low, high], nice=False)
        .axis(values=ticks, format="~g")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effect:
    """A ratio with its interval, None where that is not known."""

    name: str
    ratio: float
    low: float | None
    high: float | None
    interval: str
    verdict: str
    text: str


def _effect(name: str, each: Judged) -> _Effect:
    assert each.effect
    is_known = math.isfinite(each.effect.high) and each.effect.low > 0
    return _Effect(
        name=name,
        ratio=each.effect.ratio,
        low=each.effect.low if is_known else None,
        high=each.effect.high if is_known else None,
        interval=interval_of(each.effect) if is_known else "unknown",
        verdict=str(each.verdict),
        text=f"{name}: x {each.effect.ratio:.3f}, {each.verdict}",
    )
