"""How much faster one series is than another: ratios of medians, beside the results."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from mlbench.reports.html.results import NOTHING
from mlbench.reports.html.table import HtmlTable, TableCell, table
from mlbench.reports.summary import Combination, Summary
from mlbench.reports.units import three_digits


def speedup_table(summary: Summary) -> HtmlTable | None:
    """Return how many times as fast each series is as the first of its workload; None where none has two.

    In a scenario that reports a latency the ratio is turned round, so that more is faster everywhere.
    """
    rows: list[list[TableCell | str]] = []
    for workload in summary.workloads:
        by_series: dict[str, dict[str, Combination]] = {}
        for each in summary.of_workload(workload):
            by_series.setdefault(each.series, {})[each.scenario] = each
        base, *others = by_series
        for series in others:
            ratios = _ratios(by_series[base], by_series[series])
            if ratios:
                cells = [_ratio_cell(ratios[name]) if name in ratios else NOTHING for name in summary.scenarios]
                rows.append([workload, TableCell(series, detail=f"against {base}"), *cells])
    if not rows:
        return None
    return table(
        "Speed-up: ratios of the medians above, 1 is as fast, 2 twice as fast. Which of them are more than chance is "
        "for mlbench compare to say",
        ["workload", "backend", *(f"{scenario}#" for scenario in summary.scenarios)],
        rows,
        is_sortable=len(rows) > 2,
        is_stacked=True,
    )


def _ratios(base: Mapping[str, Combination], other: Mapping[str, Combination]) -> Mapping[str, float]:
    """Return the ratio of two series in each scenario in which both have a number of the same unit."""
    ratios = {}
    for scenario in base.keys() & other.keys():
        first, second = base[scenario], other[scenario]
        if not first.values or not second.values or first.unit != second.unit:
            continue
        values = statistics.median(first.values), statistics.median(second.values)
        slower, faster = values if second.higher_is_better else reversed(values)
        if slower:
            ratios[scenario] = faster / slower
    return ratios


def _ratio_cell(ratio: float) -> TableCell:
    return TableCell(f"{three_digits(ratio)} \N{MULTIPLICATION SIGN}", order=ratio)
