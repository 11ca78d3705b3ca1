"""The tables of the site's pages."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from mlbench.comparison.compare import Cell, Judged
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.comparison import geometric_mean, score_verdict
from mlbench.reports.console import accuracy, standing
from mlbench.reports.html.results import links_of, results_table
from mlbench.reports.html.table import HtmlTable, TableCell, table
from mlbench.reports.site.charts import TONES, interval_of
from mlbench.reports.site.content import Change, Course, WorkloadContent
from mlbench.reports.site.names import run_page, workload_page
from mlbench.reports.summary import Summary, not_counted
from mlbench.reports.units import number_of, quantity

_VERDICTS = {**TONES, SpeedVerdict.SUSPECTED: "bad", SpeedVerdict.CANNOT_TELL: "quiet"}


def overview_table(summary: Summary) -> HtmlTable:
    """Return the newest results of all workloads, each cell a link to the workload's page or the run's."""
    found = results_table(summary)
    pages = {
        link: run_page(each.newest.run_id) for each in summary.combinations if (link := links_of(summary)[each.name])
    }
    rows = []
    for name, *cells in found.rows:
        linked = [dataclasses.replace(each, page=pages[each.link], link="") if each.link else each for each in cells]
        rows.append((dataclasses.replace(name, page=workload_page(name.text)), *linked))
    caption = found.caption.replace("Results: medians", "Medians of the newest session, in its unit: those")
    return dataclasses.replace(found, rows=tuple(rows), caption=caption)


def newest_table(content: WorkloadContent) -> HtmlTable:
    """Return a row per combination: its newest result, whether that counts, and its last change of level."""
    rows = [_newest_row(course) for course in content.courses]
    return table(
        "Medians of the newest session, with the range of its runs",
        ["scenario", "backend", "result#", "performance", "accuracy", "last change", "measured, UTC", "runs#"],
        rows,
        is_sortable=len(rows) > 2,
        is_stacked=True,
    )


def _newest_row(course: Course) -> list[TableCell | str]:
    each, run = course.newest, course.newest.newest
    bad = not_counted(len(each.bad), len(each.runs)) if each.bad and len(each.runs) > 1 else ""
    values = each.values
    order = sum(values) / len(values) if values else None
    return [
        each.scenario,
        TableCell(each.series, page=f"../{run_page(run.run_id)}"),
        TableCell(each.middle(), detail=each.spread(), tone="" if values else "bad", order=order),
        TableCell(standing(run), detail=bad, tone="bad" if standing(run) != "valid" or bad else "good"),
        TableCell(accuracy(run), tone=_accuracy_tone(run.verdict and run.verdict.is_accurate)),
        _last_change(course),
        f"{run.created:%Y-%m-%d %H:%M}",
        number_of(course.count),
    ]


def _accuracy_tone(is_accurate: bool | None) -> str:
    return {True: "good", False: "bad", None: "quiet"}[is_accurate]


def _last_change(course: Course) -> TableCell:
    """Return the newest change of level of any of a course's numbers."""
    found = [(history.points[step.index].created, step) for history in course.histories for step in history.steps]
    if not found:
        return TableCell("none", tone="quiet")
    when, step = max(found, key=lambda each: each[0])
    return TableCell(
        f"x {step.effect.ratio:.3f} {step.verdict}", detail=f"{when:%Y-%m-%d}", tone=TONES.get(step.verdict, "")
    )


def changes_table(changes: Sequence[Change], caption: str, *, base: str, has_workload: bool) -> HtmlTable | None:
    """Return changes of level, newest first, with what else changed; None without any.

    Args:
        changes: newest first.
        caption: of the table.
        base: the relative address of the site's folder.
        has_workload: whether a column says of which workload each is.
    """
    if not changes:
        return None
    heads = ["since, UTC", *(["workload"] if has_workload else []), "combination"]
    return table(
        caption,
        [*heads, "measure", "speed#", "interval#", "change", "what else changed"],
        [_change_row(each, base, has_workload) for each in changes],
        is_stacked=True,
    )


def _change_row(change: Change, base: str, has_workload: bool) -> list[TableCell | str]:
    combination = change.course.newest
    page = TableCell(combination.workload, page=f"{base}{workload_page(combination.workload)}", link="history")
    return [
        TableCell(change.when),
        *([page] if has_workload else []),
        TableCell(change.course.name, detail=f"from run {change.run_id}"),
        change.history.measure,
        f"x {change.step.effect.ratio:.3f}",
        interval_of(change.step),
        TableCell(str(change.step.verdict), tone=TONES.get(change.step.verdict, "")),
        "\n".join(map(str, change.step.differences)) or TableCell("nothing recorded", tone="quiet"),
    ]


def backends_table(content: WorkloadContent) -> HtmlTable | None:
    """Return each backend against the one that ran first, number by number; None where nothing was comparable."""
    rows = [
        row
        for found in content.comparisons
        for _, comparison in found.others
        for cell in comparison.cells
        for row in _comparison_rows(cell, f"{content.name} ")
    ]
    if not rows:
        return None
    return table(
        "The newest session of each backend against that of the backend that ran first; x 2 is twice as fast",
        ["combination", "measure", "base#", "new#", "speed#", "interval#", "verdict"],
        rows,
        is_stacked=True,
    )


def _comparison_rows(cell: Cell, workload: str) -> Iterator[list[TableCell | str]]:
    base, new = (name.removeprefix(workload) for name in (cell.base_name, cell.name))
    what = TableCell(new, detail=f"against {base}")
    for each in cell.speeds:
        yield [what, each.measure, *_speed_cells(each)]
    for score in cell.scores:
        values = ["none" if value is None else f"{value:.3f}" for value in (score.base, score.new)]
        verdict = score_verdict(cell, score)
        tone = {"less accurate": "bad", "as accurate": "good"}.get(verdict, "quiet")
        yield [what, score.name, *values, "", "", TableCell(verdict, detail=score.reason, tone=tone)]


def _speed_cells(each: Judged) -> list[TableCell | str]:
    sides = [
        TableCell(
            quantity(geometric_mean(values), each.unit), detail=f"{len(values)} runs" if len(values) > 1 else "1 run"
        )
        for values in (each.base, each.new)
    ]
    verdict = TableCell(str(each.verdict), detail=each.reason, tone=_VERDICTS.get(each.verdict, ""))
    if each.effect is None:
        return [*sides, "", "", verdict]
    is_known = math.isfinite(each.effect.high)
    interval = f"{each.effect.low:.3f} to {each.effect.high:.3f}" if is_known else "unknown"
    return [*sides, f"x {each.effect.ratio:.3f}", interval, verdict]


def links_to_runs(summary: Summary, base: str) -> Mapping[str, str]:
    """Return the address of the newest run of each combination, by the combination's anchor in `links_of`."""
    links = links_of(summary)
    return {links[each.name]: f"{base}{run_page(each.newest.run_id)}" for each in summary.combinations}
