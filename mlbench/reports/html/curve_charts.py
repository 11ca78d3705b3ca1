"""Charts of curves: throughput against the latency of each user, from runs of ``mlbench curve``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair

from mlbench.records.published import merge_variants, select_published
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_names import CURVE_TAG
from mlbench.reports.curve import CurvePoint, curve_points, headings, is_dominated, table_rows
from mlbench.reports.html.drawing import (
    SOFT,
    Figure,
    Palette,
    limit_line,
    points,
    svg_of,
    time_axis,
    with_links,
)
from mlbench.reports.summary import Combination
from mlbench.reports.table import ReportTable, table
from mlbench.reports.units import duration, quantity

_GREY_NOTE = "Grey points are worse than another in both values; crosses are INVALID."


@dataclass(frozen=True, slots=True, kw_only=True)
class _CurveMark:
    """A point in the chart; ``kind`` is ``counts``, ``dominated`` or ``INVALID``."""

    series: str = ""
    kind: str = ""
    throughput: float
    load: float = 0.0
    at: float = 0.0
    percentile: str = ""
    text: str
    link: str = ""


def curve_figures(combinations: Sequence[Combination], palette: Palette) -> Iterator[Figure]:
    """Yield the charts of a workload's curves: one for each system, with the limits that its runs share."""
    curves: dict[str, list[RunRecord]] = {}
    colours: dict[str, str] = {}
    for each in combinations:
        runs = [run for run in each.runs if run.tag == CURVE_TAG]
        if runs:
            curves.setdefault(each.system, []).extend(runs)
            if runs[0].scenario_facts.sends_rate:
                colours.setdefault(each.system, each.series)
    found = {colours[system]: curve_points(runs) for system, runs in curves.items() if system in colours}
    at_a_rate = [run for runs in curves.values() for run in runs if run.scenario_facts.sends_rate]
    every = [point for found_points in found.values() for point in found_points]
    units = {each.unit for each in every if each.unit}
    if not found or len(units) != 1:
        return
    links = {run.run_id: palette.links.get(each.name, "") for each in combinations for run in each.runs}
    rows = [[series, *row] for series, found_points in found.items() for row in table_rows(found_points)]
    numbers = table("The curve's points", ["series", *headings(every)], rows, is_stacked=True)
    chart = _CurveChart(
        curves=found, records=at_a_rate, palette=palette, unit=units.pop(), links=links, numbers=numbers
    )
    has_tokens = any(each.per_user is not None for each in every)
    drawn = [chart.interactivity(), chart.waiting("ttft_ms")] if has_tokens else [chart.waiting("server_latency_ms")]
    yield from filter(None, drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CurveChart:
    """The curves of a workload, by series."""

    curves: Mapping[str, list[CurvePoint]]
    records: Sequence[RunRecord]
    """Those at a rate."""
    palette: Palette
    unit: str
    links: Mapping[str, str]
    """The address of each run, by its id."""
    numbers: ReportTable

    def interactivity(self) -> Figure | None:
        """Return throughput over the tokens that one user gets per second."""
        import altair

        marks = self._marks("p90", lambda point: point.per_user, lambda value: f"{quantity(value, 'tokens/s')} a user")
        if not marks:
            return None
        limit_ms = self._limit("tpot_ms")
        ghosts = self._ghosts(1000 / limit_ms) if limit_ms else []
        x = altair.X("at:Q").title("tokens/s per user, p90").scale(zero=True, nice=True).axis(tickCount=5)
        y = altair.Y("throughput:Q").title(f"{self.unit} per device").scale(zero=True).axis(tickCount=5, format="~s")
        layers = self._layers(marks, x, y)
        note = "To the right each user gets tokens faster, to the top the throughput is higher. "
        note += f"Lines join points in order of load. {_GREY_NOTE}"
        if limit_ms:
            layers += limit_line(1000 / limit_ms, f"limit {limit_ms:g} ms a token", is_upright=True)
            note += " Left of the dashed line tokens take longer than the limit (approximately, since p99 counts)."
        if ghosts:
            layers.append(points(ghosts).mark_point(filled=False, opacity=0.5, color=SOFT).encode(x=x, y=y))
            note += " Hollow points are published results, at their limit."
        title = "Curve: throughput against interactivity"
        return Figure(title=title, note=note, views={"": svg_of(*layers)}, numbers=self.numbers)

    def waiting(self, limit: str) -> Figure | None:
        """Return the user's latency over throughput: p90 and p99."""
        import altair

        name = "TTFT" if limit == "ttft_ms" else "latency"
        marks = [
            *self._marks("p90", lambda point: point.times.p90_ns, duration),
            *self._marks("p99", lambda point: point.times.p99_ns, duration),
        ]
        if not marks:
            return None
        limit_ms = self._limit(limit)
        every_ns = [each.at for each in marks] + ([limit_ms * 1e6] if limit_ms else [])
        x = altair.X("throughput:Q").title(f"{self.unit} per device").scale(zero=True).axis(tickCount=5, format="~s")
        note = f"The {name} at p90, and above it, darker, at p99. {_GREY_NOTE}"
        ends = self._ends()
        upright = points(ends).mark_rule(opacity=0.6).encode(x=x, color=self.palette.colour_channel())
        if ends:
            note += " The vertical line is the throughput with all samples at once."
        limit_ns = limit_ms * 1e6 if limit_ms else 0.0
        views = {}
        for scale in ("log", "linear"):
            layers = self._layers(marks, x, time_axis(every_ns, name, scale, field="at"))
            limits = limit_line(limit_ns, f"limit {duration(limit_ns)}") if limit_ns else []
            views[scale] = svg_of(*([upright] if ends else []), *layers, *limits)
        title = f"Curve: {name} against throughput"
        return Figure(title=title, note=note, views=views, numbers=self.numbers)

    def _marks(
        self, percentile: str, value_of: Callable[[CurvePoint], float | None], spell: Callable[[float], str]
    ) -> list[_CurveMark]:
        found = []
        for series, all_points in self.curves.items():
            for each in all_points:
                value = value_of(each)
                if each.rate_per_s is None or each.per_device is None or value is None:
                    continue
                kind = "INVALID" if each.problem else "dominated" if is_dominated(each, all_points) else "counts"
                told = f"{series}, {each.name}: {quantity(each.per_device, each.unit)}, {percentile} {spell(value)}"
                text = f"{told}, {each.problem or kind}"
                found.append(
                    _CurveMark(
                        series=series,
                        kind=kind,
                        load=each.rate_per_s,
                        throughput=each.per_device,
                        at=value,
                        percentile=percentile,
                        text=text,
                        link=self.links[each.runs[0]],
                    )
                )
        return found

    def _layers(self, marks: Sequence[_CurveMark], x: altair.X, y: Any) -> list[Any]:
        """Return lines through the valid points, from the lowest load to the highest, and all points."""
        layers: list[Any] = []
        colour, shape = self.palette.colour_channel(), self.palette.shape_channel()
        for percentile, opacity in (("p90", 0.55), ("p99", 1.0)):
            some = [each for each in marks if each.percentile == percentile]
            strong = 1.0 if len({each.percentile for each in marks}) == 1 else opacity
            good, dull, bad = ([each for each in some if each.kind == kind] for kind in _KINDS)
            if good:
                base = points(good).encode(x=x, y=y, color=colour)
                lines = base.encode(order="load:Q").mark_line(aria=False, opacity=strong)
                layers += [lines, with_links(base.encode(shape=shape).mark_point(opacity=strong), good)]
            if dull:
                grey = points(dull).encode(x=x, y=y, shape=shape).mark_point(color=SOFT, opacity=0.5)
                layers.append(with_links(grey, dull))
            if bad:
                cross = points(bad).encode(x=x, y=y).mark_point(shape="cross", angle=45, color=SOFT)
                layers.append(with_links(cross, bad))
        return layers

    def _ends(self) -> list[_CurveMark]:
        return [
            _CurveMark(series=series, throughput=each.per_device, text=f"{series}: {each.name}")
            for series, found in self.curves.items()
            for each in found
            if each.rate_per_s is None and each.per_device is not None and not each.problem
        ]

    def _limit(self, name: str) -> float | None:
        """Return a limit that all runs share, in milliseconds."""
        limits = {each.limits.get(name) for each in self.records}
        (limit,) = limits if len(limits) == 1 else (None,)
        return float(limit) if isinstance(limit, int | float) and limit > 0 else None

    def _ghosts(self, at: float) -> list[_CurveMark]:
        """Return published results of the same workload: only runs of full models compare with them."""
        first = self.records[0]
        if first.profile != "full":
            return []
        found = select_published(workload=first.workload, scenario=first.scenario, round_name=first.round)
        return [
            _CurveMark(
                throughput=each.per_accelerator,
                at=at,
                text=f"{each.submitter}, {each.accelerator}: {quantity(each.per_accelerator, each.unit)}",
            )
            for each, _ in merge_variants(found)
            if each.accelerators and each.unit == self.unit
        ]


_KINDS = ("counts", "dominated", "INVALID")
