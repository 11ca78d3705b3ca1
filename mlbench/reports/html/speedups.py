"""Speed-ups between series: ratios of medians, next to the results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace

from mlbench.comparison.measures import Measure, speeds_of, why_loads_differ
from mlbench.reports.html.results import NOTHING, series_table
from mlbench.reports.summary import Combination, Summary
from mlbench.reports.table import ReportTable, TableCell
from mlbench.reports.units import three_digits


def speedup_table(summary: Summary) -> ReportTable | None:
    """Return the speed-up of each series over the first of its workload; None if no workload has two.

    The speeds are those that a comparison uses: for runs at a given rate the latencies, since the rate is not a result.
    Ratios of latencies are inverted, so that larger is faster everywhere.
    """
    rows: list[list[TableCell | str]] = []
    for workload in summary.workloads:
        by_series = {series: found for (name, series), found in summary.by_series.items() if name == workload}
        base, *others = by_series
        for series in others:
            cells = _cells(by_series[base], by_series[series])
            if any(cell.order is not None for cell in cells.values()):  # of a curve all points have rates of their own
                shown = [cells.get(name, NOTHING) for name in summary.scenarios]
                rows.append([workload, TableCell(series, detail=f"against {base}"), *shown])
    if not rows:
        return None
    caption = (
        "Speed-up, by what mlbench compare judges: of runs that were sent at a rate, the latencies. 1 is as fast, 2 "
        "twice as fast; which of them are more than chance is for mlbench compare to say"
    )
    return series_table(caption, summary, [], rows)


def _cells(base: Mapping[str, Combination], other: Mapping[str, Combination]) -> Mapping[str, TableCell]:
    """Return a cell for each scenario in which both series have a speed."""
    cells = {name: _ratio_cell(base[name], other[name]) for name in base.keys() & other.keys()}
    return {name: cell for name, cell in cells.items() if cell}


def _ratio_cell(base: Combination, other: Combination) -> TableCell | None:
    """Return the other one's speed-up by each speed that both have; None if they have none."""
    if why_loads_differ([*base.counted, *other.counted]):
        return replace(NOTHING, detail="at other rates")
    first, second = medians(base), medians(other)
    ratios = {
        name: second[name].value / first[name].value for name in first if _are_alike(first[name], second.get(name))
    }
    faster = {name: ratio if first[name].higher_is_better else 1 / ratio for name, ratio in ratios.items()}
    if not faster:
        return None
    names = ", ".join(name for name in faster if name != "throughput")
    text = "\n".join(f"{three_digits(ratio)} \N{MULTIPLICATION SIGN}" for ratio in faster.values())
    return TableCell(text, detail=names, order=min(faster.values()))


def medians(combination: Combination) -> Mapping[str, Measure]:
    """Return each speed by name: the median of the valid runs."""
    found: dict[str, list[Measure]] = {}
    for run in combination.counted:
        for measure in speeds_of(run):
            found.setdefault(measure.name, []).append(measure)
    return {
        name: replace(each[0], value=statistics.median(measure.value for measure in each))
        for name, each in found.items()
    }


def _are_alike(first: Measure, second: Measure | None) -> bool:
    return second is not None and (first.unit, first.higher_is_better) == (second.unit, second.higher_is_better)
