"""Charts over many runs: how results moved in time, and how two sides compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from mlbench.comparison.compare import Comparison, Judged, Verdict
from mlbench.records.run_record import RunRecord
from mlbench.reports.html.drawing import FAINT, SOFT, WARN, Figure, Palette, Row, points, svg_of, time_axis
from mlbench.reports.html.table import Cell, table
from mlbench.reports.summary import Combination, value_of
from mlbench.reports.units import quantity

HISTORY_LEAST = 3
"""Runs of a combination below which a course in time says nothing."""

_HISTORY_MOST = 200
"""Points of a series that a chart of this width can hold."""

_TONES = {Verdict.FASTER: "var(--good)", Verdict.SLOWER: WARN, Verdict.SAME: SOFT, Verdict.CANNOT_TELL: FAINT}


def history_figure(
    combinations: Sequence[Combination], palette: Palette, changes: Mapping[str, Sequence[datetime]]
) -> Figure | None:
    """Return the results of one workload and scenario run by run; None where there are too few.

    Args:
        combinations: of one workload in one scenario.
        palette: colours of the page.
        changes: by series, when runs began to differ from those before: change points, marked in the chart.
    """
    import altair

    found = {each.series: each.counted[-_HISTORY_MOST:] for each in combinations if len(each.counted) >= HISTORY_LEAST}
    rows = [_history_row(series, run) for series, runs in found.items() for run in runs]
    if not rows:
        return None
    result = next(iter(found.values()))[0].result
    assert result
    moment = altair.X("when:T").title("begin of the run, UTC").scale(type="utc").axis(tickCount=4)
    if result.unit == "ns":
        value = time_axis(altair.Y, "value", [row["value"] for row in rows], "result, logarithmic")
    else:
        value = altair.Y("value:Q").title(result.unit).scale(zero=True).axis(tickCount=5, format=",~f")
    base = points(rows).encode(x=moment, y=value, **palette.encodings())
    layers = [base.mark_line(aria=False, point=False, opacity=0.5), base.mark_point()]
    marked: list[Row] = [
        {"series": series, "when": _milliseconds(when), "text": f"{series}: changed at {when:%Y-%m-%d %H:%M}"}
        for series, moments in changes.items()
        if series in found
        for when in moments
    ]
    if marked:
        steps = points(marked).encode(x=moment, color=palette.encodings()["color"])
        layers.append(steps.mark_rule(strokeDash=[2, 3]))
    scenario = combinations[0].scenario
    direction = "Higher" if result.higher_is_better else "Lower"
    note = f"The result of every run that counts, in the order of time. {direction} is better."
    return Figure(
        title=f"{scenario}: run by run",
        note=note + (" Dotted lines mark where a series changed." if marked else ""),
        svg=svg_of(*layers),
        numbers=table(
            f"{scenario}, every run",
            ["series", "begin, UTC", "run", "result#"],
            [
                [series, f"{run.created:%Y-%m-%d %H:%M:%S}", run.run_id.rpartition("-")[2], _spelled(run)]
                for series, runs in found.items()
                for run in runs
            ],
        ),
    )


def _history_row(series: str, run: RunRecord) -> Row:
    text = f"{series}, {run.created:%Y-%m-%d %H:%M}: {_spelled(run)}"
    return {"series": series, "when": _milliseconds(run.created), "value": value_of(run), "text": text}


def _spelled(run: RunRecord) -> str:
    assert run.result
    return quantity(run.result.value, run.result.unit)


def _milliseconds(when: datetime) -> float:
    return when.timestamp() * 1000


def comparison_figure(comparison: Comparison) -> Figure | None:
    """Return each number's speed against the base, with its interval; None where nothing could be compared."""
    import altair

    every = ((f"{cell.name}, {each.measure}", each) for cell in comparison.cells for each in cell.speeds)
    judged = [(name, each) for name, each in every if each.effect]
    if not judged:
        return None
    rows = [_effect_row(str(number), name, each) for number, (name, each) in enumerate(judged, 1)]
    known = [row[key] for row in rows for key in ("low", "ratio", "high") if row[key] is not None]
    reach = max(*(abs(math.log(value)) for value in known), math.log(1 + 2 * comparison.margin)) * 1.1
    ratio = (
        altair.X("ratio:Q")
        .title("times as fast as the base, logarithmic")
        .scale(type="log", domain=[math.exp(-reach), math.exp(reach)], nice=False)
        .axis(format=".3~g", tickCount=5)
    )
    place = altair.Y("number:O").title(None).sort([row["number"] for row in rows]).axis(grid=False)
    colour = altair.Color("verdict:N").scale(domain=list(map(str, _TONES)), range=list(_TONES.values())).legend(None)
    shape = altair.Shape("verdict:N").scale(
        domain=list(map(str, _TONES)), range=["triangle-right", "triangle-left", "circle", "square"]
    )
    band = points([{"low": 1 / (1 + comparison.margin), "high": 1 + comparison.margin, "text": "margin"}])
    base = points(rows).encode(y=place, color=colour)
    bounded = points([row for row in rows if row["low"] is not None]).encode(y=place, color=colour)
    return Figure(
        title="Speed against the base",
        note=f"The point is the ratio, the line its 95 % interval; numbers stand in the table. Right of 1 is faster. "
        f"Within the band of {comparison.margin:.0%} a change is called none.",
        svg=svg_of(
            band.mark_rect(color=FAINT, opacity=0.5, aria=False).encode(x=altair.X("low:Q"), x2="high:Q"),
            points([{"one": 1, "text": ""}]).mark_rule(color=SOFT, aria=False).encode(x=altair.X("one:Q")),
            bounded.mark_rule(strokeWidth=2, aria=False).encode(x=altair.X("low:Q"), x2="high:Q"),
            base.mark_point(size=70).encode(x=ratio, shape=shape.legend(None)),
            height=max(120, 60 + 22 * len(rows)),
        ),
        numbers=table(
            "Numbers of the chart",
            ["number#", "what", "speed#", "interval#", "verdict"],
            [
                [
                    Cell(number, order=float(number)),
                    name,
                    f"x {each.effect.ratio:.3f}" if each.effect else "",
                    _interval(each),
                    str(each.verdict),
                ]
                for number, (name, each) in ((str(place), pair) for place, pair in enumerate(judged, 1))
            ],
        ),
    )


def _interval(each: Judged) -> str:
    if not each.effect or not math.isfinite(each.effect.high):
        return "unknown"
    return f"{each.effect.low:.3f} to {each.effect.high:.3f}"


def _effect_row(number: str, name: str, each: Judged) -> Row:
    assert each.effect
    is_known = math.isfinite(each.effect.high) and each.effect.low > 0
    return {
        "number": number,
        "ratio": each.effect.ratio,
        "low": each.effect.low if is_known else None,
        "high": each.effect.high if is_known else None,
        "verdict": str(each.verdict),
        "text": f"{name}: x {each.effect.ratio:.3f}, {each.verdict}",
    }
