"""All results in one picture: workloads and scenarios by backend, relative to the fastest of each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import altair

from mlbench.comparison.measures import why_loads_differ
from mlbench.reports.console import standing
from mlbench.reports.html.drawing import INK, WARN, Figure, points, svg_of, with_links
from mlbench.reports.html.speedups import medians
from mlbench.reports.summary import Combination, Summary
from mlbench.reports.table import table

MOST_COLUMNS = 6
"""Most columns that a phone can show; the table of results has all."""

_NO_LINKS: Mapping[str, str] = {}
_ROW_HEIGHT, _HEAD_HEIGHT = 32, 80
_LETTER = 6.5
"""Width per character in pixels, with some room for other fonts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    row: str
    column: str
    share: float
    """Speed relative to the fastest of its row, 0 to 1; 0 for a run that does not count."""
    shown: str
    text: str
    link: str


def overview_figure(summary: Summary, links: Mapping[str, str] = _NO_LINKS) -> Figure | None:
    """Return the first picture of a page, each cell a link to its run; None if no run counts."""
    every = list(dict.fromkeys(_column(each) for each in summary.combinations))
    columns, rows = every[:MOST_COLUMNS], dict[str, dict[str, _Cell]]()
    for each in summary.combinations:
        rows.setdefault(f"{each.workload} {each.scenario}", {})
    for name, found in rows.items():
        some = [each for each in summary.combinations if f"{each.workload} {each.scenario}" == name]
        found.update(
            (cell.column, cell) for cell in _cells_of(name, some, len(every) > 1, links) if cell.column in columns
        )
    cells = [cell for found in rows.values() for cell in found.values()]
    if not any(cell.share for cell in cells):
        return None
    note = "1 is the fastest of its row; 0.5 is half as fast. " if len(every) > 1 else ""
    note += "Red: it does not count."
    if len(every) > MOST_COLUMNS:
        note += f" The table of results has {len(every) - MOST_COLUMNS} more."
    return Figure(
        title="Speed by backend" if len(every) > 1 else "Results",
        note=note,
        views={"": _draw(cells, columns, list(rows))},
        numbers=table(
            "Share of the fastest of each row",
            ["workload and scenario", *(f"{column}#" for column in columns)],
            [
                [name, *(found[each].shown if each in found else "-" for each in columns)]
                for name, found in rows.items()
            ],
        ),
    )


def _column(combination: Combination) -> str:
    return f"{combination.newest.backend} {combination.newest.precision_and_transform}"


def _cells_of(
    row: str, combinations: Sequence[Combination], has_several: bool, links: Mapping[str, str]
) -> Iterator[_Cell]:
    """Yield the cells of a row, each with the fastest run of its column, by the first speed that all have.

    Latencies at different rates cannot be compared; there the higher rate is the faster.
    """
    counted = [each for each in combinations if each.counted and not each.bad]
    has_rates = bool(why_loads_differ([run for each in counted for run in each.counted]))
    speeds = [(each, {"": each.median or 0.0} if has_rates else _speeds(each)) for each in counted]
    shared = [name for name in (speeds[0][1] if speeds else ()) if all(name in found for _, found in speeds)]
    fastest = max((found[shared[0]] for _, found in speeds), default=0.0) if shared else 0.0
    shares = {each.name: found[shared[0]] / fastest for each, found in speeds} if fastest else {}
    for each in sorted(combinations, key=lambda each: shares.get(each.name, 0.0)):  # the last of a column stays
        share, result = shares.get(each.name, 0.0), each.middle()
        shown = (f"{share:.2f}" if share >= 0.01 else "<0.01") if has_several else result
        told = f"{row}, {each.series}: {result}"
        yield _Cell(
            row=row,
            column=_column(each),
            share=share,
            shown=shown if share else _why_not(each),
            text=told if share else f"{told}, does not count",
            link=links.get(each.name, ""),
        )


def _why_not(combination: Combination) -> str:
    newest = combination.bad[-1] if combination.bad else combination.newest
    found = standing(newest)
    return "inaccurate" if found == "valid" and newest.verdict and newest.verdict.is_accurate is False else found


def _speeds(combination: Combination) -> Mapping[str, float]:
    """Return each speed by name; larger is faster."""
    found = medians(combination)
    return {
        name: each.value if each.higher_is_better else 1 / each.value for name, each in found.items() if each.value > 0
    }


def _draw(cells: Sequence[_Cell], columns: Sequence[str], rows: Sequence[str]) -> str:
    x = altair.X("column:N").title(None).sort(list(columns)).scale(domain=list(columns), paddingInner=0.04)
    x = x.axis(orient="top", labelAngle=35, labelAlign="right", grid=False, labelOverlap=False)
    y = altair.Y("row:N").title(None).sort(list(rows)).scale(paddingInner=0.08)
    extent = _LETTER * max(len(word) for row in rows for word in row.split())
    y = y.axis(
        grid=False, labelExpr="split(datum.label, ' ')", minExtent=extent, labelBaseline="middle", labelOffset=-6
    )
    base = points(cells).encode(x=x, y=y)
    opacity = altair.Opacity("share:Q").scale(domain=[0, 1], range=[0.05, 0.55]).legend(None)
    named = base.encode(altair.Text("shown:N"))
    return svg_of(
        with_links(base.mark_rect(color="var(--series-1)").encode(opacity=opacity), cells),
        named.transform_filter("datum.share > 0").mark_text(color=INK, aria=False),
        named.transform_filter("datum.share == 0").mark_text(color=WARN, aria=False, fontSize=9),
        height=_HEAD_HEIGHT + _ROW_HEIGHT * len(rows),
    )
