"""Charts of the latencies of queries."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import altair

from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_names import CURVE_TAG, short_id
from mlbench.reports.html.drawing import Figure, Mark, Palette, Scale, joined, limit_line, points, svg_of, time_axis
from mlbench.reports.summary import Combination
from mlbench.reports.table import TableCell, table
from mlbench.reports.units import duration, quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A latency whose percentiles LoadGen logs."""

    title: str
    axis: str
    key: str
    """A regular expression for the record's keys; its group is the percentage."""
    least: str
    """The record's key of the smallest value."""
    limit: str
    """Its name in the record's limits, in milliseconds; empty where no rule limits it."""


QUERY = Kind(
    title="latency of a query",
    axis="latency",
    key=r"(\d+\.\d+)_percentile_per_query_latency",
    least="min_query_latency",
    limit="",
)
SAMPLE = Kind(
    title="latency",
    axis="latency",
    key=r"(\d+\.\d+)_percentile_latency",
    least="min_latency",
    limit="server_latency_ms",
)
FIRST_TOKEN = Kind(
    title="time to first token",
    axis="TTFT",
    key=r"first_token_(\d+\.\d+)_percentile_latency",
    least="first_token_min_latency",
    limit="ttft_ms",
)
PER_TOKEN = Kind(
    title="time per output token",
    axis="TPOT",
    key=r"time_per_output_token_(\d+\.\d+)_percentile",
    least="time_to_output_token_min",
    limit="tpot_ms",
)

_OTHER_PERCENTILES = (50.0, 95.0, 99.0)
"""Those that can be chosen beside the one that the rules judge."""


def percentiles_of(record: RunRecord, kind: Kind) -> Mapping[float, int]:
    """Return a run's logged percentiles by percentage, in ascending order; 0 is the minimum."""
    logged = record.result.latency_ns if record.result else {}
    found = {float(match[1]): value for key, value in logged.items() if (match := re.fullmatch(kind.key, key))}
    if found and kind.least in logged:
        found[0.0] = logged[kind.least]
    return {key: found[key] for key in sorted(found) if found[key] > 0}


def latency_figures(combinations: Sequence[Combination], palette: Palette) -> list[Figure]:
    """Return the charts of the newest runs of one workload in one scenario."""
    shown = [each for each in combinations if each.newest.result]
    scenario = combinations[0].scenario
    kinds = [FIRST_TOKEN, PER_TOKEN]
    if combinations[0].newest.scenario_facts.percentile:  # where all samples are one query, latencies say nothing
        by_query = any(percentiles_of(each.newest, QUERY) for each in shown)
        kinds = [QUERY if by_query else SAMPLE, *kinds]
    figures = [_percentile_figure(shown, palette, kind, scenario) for kind in kinds]
    return [figure for figure in figures if figure]


def _percentile_figure(
    combinations: Sequence[Combination], palette: Palette, kind: Kind, scenario: str
) -> Figure | None:
    found = {each.series: percentiles_of(each.newest, kind) for each in combinations}
    found = {series: percentiles for series, percentiles in found.items() if percentiles}
    if not found:
        return None
    limit_ns = _limit_ns([each.newest for each in combinations], kind)
    links = {each.series: palette.links.get(each.name, "") for each in combinations}
    rows = [
        Mark(
            series=series,
            x=_nines(percentage),
            y=ns,
            text=f"{series}: {_name(percentage)} {duration(ns)}",
            link=links[series],
        )
        for series, percentiles in found.items()
        for percentage, ns in percentiles.items()
        if _nines(50) <= _nines(percentage) <= _nines(99.9)
    ]
    every_ns = [row.y for row in rows] + ([limit_ns] if limit_ns else [])
    layers = joined(rows, _percentile_axis(), time_axis(every_ns, kind.axis), palette)
    if limit_ns:
        layers += limit_line(limit_ns, f"limit {duration(limit_ns)}")
    columns = sorted({percentage for percentiles in found.values() for percentage in percentiles})
    runs = {each.series: _which_run(each) for each in combinations}
    numbers: list[list[TableCell | str]] = [
        [
            TableCell(series, detail=runs[series]),
            *(duration(percentiles[each]) if each in percentiles else "-" for each in columns),
        ]
        for series, percentiles in found.items()
    ]
    title = f"{scenario}: {kind.title}"
    note = "The share of queries answered within a time; the slowest are on the right. "
    at = 100 * (combinations[0].newest.scenario_facts.percentile or 0)
    note += f"The dashed line is the limit at p{at:g}, {duration(limit_ns)}." if limit_ns else "Lower is better."
    if any(runs[series] for series in found):
        note += " For repeats, the newest run is shown."
    return Figure(
        title=title,
        note=note,
        views={"": svg_of(*layers)},
        numbers=table(
            f"{title}, percentiles of the newest run of each series",
            ["series", *(f"{_name(each)}#" for each in columns)],
            numbers,
        ),
    )


def _which_run(combination: Combination) -> str:
    """Return the note on which repeat is shown; empty for a single run."""
    count = len(combination.runs)
    return f"{short_id(combination.newest.run_id)}, newest of {count} runs" if count > 1 else ""


def _limit_ns(records: Sequence[RunRecord], kind: Kind) -> float | None:
    """Return the limit in force; None if runs differ in it, or it does not apply."""
    limits = {each.limits.get(kind.limit) for each in records if each.scenario_facts.sends_rate}
    (limit,) = limits if len(limits) == 1 else (None,)
    return limit * 1e6 if isinstance(limit, int | float) and limit > 0 else None


def _nines(percentage: float) -> float:
    """Return the position of a percentile on an axis that spreads the slowest queries: 1, 2, 3 for 90, 99, 99.9."""
    return -math.log10(1 - percentage / 100) if percentage < 100 else math.inf


def _name(percentage: float) -> str:
    return f"p{percentage:g}" if percentage else "least"


def _percentile_axis() -> altair.X:
    marked = [50.0, 90.0, 99.0, 99.9]
    label = " : ".join(f"abs(datum.value - {_nines(each):.6f}) < 1e-3 ? '{_name(each)}'" for each in marked)
    return (
        altair.X("x:Q")
        .title("percentile")
        .scale(domain=[_nines(50) - 0.15, _nines(99.9) + 0.15], nice=False)
        .axis(values=[_nines(each) for each in marked], labelExpr=f"{label} : ''", labelFlush=False)
    )


def load_figures(combinations: Sequence[Combination], palette: Palette) -> Iterator[Figure]:
    """Yield latency against throughput of each scenario that sends a rate; runs of curves have their own chart."""
    served = [each for each in combinations if each.newest.scenario_facts.sends_rate]
    for scenario in dict.fromkeys(each.scenario for each in served):
        if figure := _load_figure([each for each in served if each.scenario == scenario], combinations, palette):
            yield figure


def _load_figure(served: Sequence[Combination], combinations: Sequence[Combination], palette: Palette) -> Figure | None:
    """Return the latency of all runs of a scenario against their throughput, with the Offline throughput."""
    scenario, percentile = served[0].scenario, round(100 * (served[0].newest.scenario_facts.percentile or 0.99), 2)
    colours = {each.system: each.series for each in reversed(served)}  # a system's curve is drawn as its first series
    by_percentile = {
        each: [row for one in served for row in _load_rows(one, colours[one.system], each, palette)]
        for each in (percentile, *_OTHER_PERCENTILES)
    }
    if not by_percentile[percentile]:
        return None
    unit = by_percentile[percentile][0].unit
    by_percentile = {each: [row for row in found if row.unit == unit] for each, found in by_percentile.items()}
    rows = by_percentile[percentile]
    scenarios, ceilings = _ceilings(combinations, unit, colours)
    named = ", ".join(dict.fromkeys(scenarios))
    upright_is = f" The vertical line is the throughput of its system in {named}." if named else ""
    limit_ns = _limit_ns([run for each in served for run in each.runs], SAMPLE)
    highest = max(mark.x for mark in (*(row.mark for row in rows), *ceilings))
    rate = (
        altair.X("x:Q")
        .title(f"completed {unit}")
        .scale(domain=[0, highest * 1.05], nice=False)
        .axis(tickCount=5, format=",~f")
    )
    upright = points(ceilings).mark_rule(opacity=0.6).encode(x=rate, color=palette.colour_channel())
    views = {}
    kinds: list[tuple[float, Scale]] = [(percentile, "log"), (percentile, "linear")]
    kinds += [(each, "log") for each, found in by_percentile.items() if found and each != percentile]
    for each, scale in kinds:
        some = [row.mark for row in by_percentile[each]]
        limits = [limit_ns] if limit_ns and each == percentile else []
        latency = time_axis([*(mark.y for mark in some), *limits], f"{_name(each)} latency", scale)
        curve, dots = joined(some, rate, latency, palette, opacity=0.5)
        layers = [*([upright] if ceilings else []), *([curve] if len(served) > len(colours) else []), dots]
        for limit in limits:
            layers += limit_line(limit, f"limit {duration(limit)}")
        views[_name(each) if scale == "log" else f"{_name(each)}, {scale}"] = svg_of(*layers)
    return Figure(
        title=f"{scenario}: latency against throughput",
        note=f"Each point is a valid run.{_describe_left_out(served, len(rows))}{upright_is}",
        views=views,
        numbers=table(
            f"{scenario} runs: throughput and {_name(percentile)} latency",
            ["series", "run", "throughput#", f"{_name(percentile)} latency#"],
            [[row.name, row.run, quantity(row.mark.x, unit), duration(row.mark.y)] for row in rows],
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunAtRate:
    """A run at a rate."""

    name: str
    """Name of its series."""
    unit: str
    run: str
    mark: Mark
    """Its latency at its rate, with the colour and the curve of its system's first series."""


def _describe_left_out(served: Sequence[Combination], drawn: int) -> str:
    """Return a note on runs at a rate without a point; runs of curves have their own chart, and are not counted."""
    count = sum(run.tag != CURVE_TAG for each in served for run in each.runs)
    if count == drawn:
        return ""
    return f" {count - drawn} of {count} runs have no point: they are INVALID or lack such latencies."


def _load_rows(combination: Combination, series: str, percentile: float, palette: Palette) -> Iterator[_RunAtRate]:
    for run in combination.counted:
        ns = percentiles_of(run, SAMPLE).get(percentile) if run.tag != CURVE_TAG else None
        if ns and run.result and run.result.value is not None:
            rate, unit = run.result.value, run.result.unit
            short = short_id(run.run_id)
            text = f"{combination.series}, run {short}: {quantity(rate, unit)}, {_name(percentile)} {duration(ns)}"
            mark = Mark(series=series, x=rate, y=ns, text=text, link=palette.links.get(combination.name, ""))
            yield _RunAtRate(name=combination.series, unit=unit, run=short, mark=mark)


def _ceilings(
    combinations: Sequence[Combination], unit: str, colours: Mapping[str, str]
) -> tuple[list[str], list[Mark]]:
    """Return the newest Offline throughput of each system that also ran at a rate, and their scenarios."""
    scenarios, marks = list[str](), list[Mark]()
    for each in combinations:
        if not each.newest.scenario_facts.sends_all_at_once or each.system not in colours or not each.counted:
            continue
        result = each.counted[-1].result
        if result and result.value is not None and result.unit == unit:
            text = f"{each.series}: {each.scenario} {quantity(result.value, unit)}"
            scenarios.append(each.scenario)
            marks.append(Mark(series=colours[each.system], x=result.value, text=text))
    return scenarios, marks
