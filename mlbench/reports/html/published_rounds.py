"""How the published results of accelerators moved from round to round, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair

from mlbench.records.published import AcceleratorRounds, list_rounds
from mlbench.reports.html.drawing import HEIGHT, INK, Mark, Palette, points, svg_of
from mlbench.reports.units import three_digits


def draw_rounds(found: Sequence[AcceleratorRounds]) -> str:
    """Return a line per accelerator over the rounds, as SVG; all in one unit, per accelerator."""
    rounds = list_rounds(found)
    what = {(each.benchmark, each.scenario) for each in found}
    names = [
        " ".join((each.accelerator, *((each.benchmark, each.scenario) if len(what) > 1 else ()), *each.variants))
        for each in found
    ]
    marks = [
        Mark(
            series=name,
            x=rounds.index(round_name),
            y=best.per_accelerator,
            text=f"{name}: {three_digits(best.per_accelerator)} {best.unit} in {round_name} ({best.result_id})",
        )
        for name, each in zip(names, found, strict=True)
        for round_name, best in each.best.items()
    ]
    label = " : ".join(f"datum.value == {place} ? '{name}'" for place, name in enumerate(rounds))
    axis = (
        altair.X("x:Q")
        .title(" ".join(next(iter(what))) if len(what) == 1 else "round")
        .scale(domain=[-0.3, len(rounds) - 0.7])
    )
    x = axis.axis(values=[*range(len(rounds))], labelExpr=f"{label} : ''", grid=False)
    y = altair.Y("y:Q").title(f"{found[0].unit} per accelerator").scale(domainMin=0)
    palette = Palette(series=tuple(names))
    legend: dict[str, Any] = {
        "orient": "bottom",
        "columns": 1,
        "title": None,
        "labelLimit": 320,
        "labelColor": INK,
        "labelFontSize": 9,
    }
    drawn = points(marks).encode(
        x=x, y=y, color=palette.colour_channel().legend(**legend), shape=palette.shape_channel().legend(**legend)
    )
    return svg_of(drawn.mark_line(point=False), drawn.mark_point(), height=HEIGHT + _LINE * len(names))


_LINE = 16
"""Height of a line of the legend."""
