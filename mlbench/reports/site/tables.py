"""The tables of the site's pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from mlbench.comparison.compare import Cell, Judged
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_names import short_id
from mlbench.reports.comparison import interval_of, score_verdict, speed_texts
from mlbench.reports.console import accuracy, spell_target, standing, target_sign
from mlbench.reports.html.results import NOTHING, links_of, origin, series_table, with_estimates
from mlbench.reports.site.charts import TONES
from mlbench.reports.site.content import LevelChange, Trend, WorkloadContent, run_page, workload_page
from mlbench.reports.summary import Combination, Summary, not_counted
from mlbench.reports.table import ReportTable, TableCell, table
from mlbench.reports.units import number_of, plural

_VERDICTS = {**TONES, SpeedVerdict.SUSPECTED: "bad", SpeedVerdict.CANNOT_TELL: "quiet"}
_FEW_SCORES = 2
"""Most scores that are spelled out in a narrow column."""


def links_to_runs(summary: Summary, base: str) -> Mapping[str, str]:
    """Return the address of the newest run of each combination, by the combination's anchor in `links_of`."""
    links = links_of(summary)
    return {links[each.name]: f"{base}{run_page(each.newest.run_id)}" for each in summary.combinations}


def overview_table(summary: Summary) -> ReportTable:
    """Return a row per workload and series: its newest accuracy, and its newest result in each scenario."""
    rows = []
    for (workload, series), found in sorted(summary.by_series.items()):
        row = [TableCell(workload, page=workload_page(workload)), TableCell(series, detail=origin(found.values()))]
        row.append(_accuracy_cell([each.newest for each in found.values()]))
        row += [_result_cell(found[name]) if name in found else NOTHING for name in summary.scenarios]
        rows.append(row)
    return series_table(with_estimates("Medians of the newest session", summary), summary, ["accuracy"], rows)


def newest_table(content: WorkloadContent) -> ReportTable:
    """Return a row per combination: its newest result, its validity, and its last change of level."""
    rows = [_newest_row(trend) for trend in content.trends]
    return table(
        with_estimates("Medians of the newest session, with the range of its runs", content.summary),
        ["scenario", "backend", "result#", "verdict", "accuracy", "last change", "measured, UTC", "runs#"],
        rows,
        is_sortable=len(rows) > 2,
        is_stacked=True,
    )


def _newest_row(trend: Trend) -> list[TableCell | str]:
    each, run = trend.newest, trend.newest.newest
    return [
        each.scenario,
        TableCell(each.series, detail=origin([each]), page=f"../{run_page(run.run_id)}"),
        _value_cell(each),
        _verdict_cell(each),
        _accuracy_cell([run]),
        _last_change(trend),
        _moment_cell(run.created),
        TableCell(number_of(trend.count), order=trend.count),
    ]


def _value_cell(each: Combination) -> TableCell:
    return TableCell(each.middle(), detail=each.spread(), tone="" if each.values else "bad", order=each.median)


def _verdict_cell(each: Combination) -> TableCell:
    """Return whether the newest run is valid, and the number of its session's runs that are not."""
    bad = not_counted(len(each.bad), len(each.runs)) if each.bad and len(each.runs) > 1 else ""
    return TableCell(standing(each.newest), detail=bad, tone="bad" if each.bad else "good")


def _result_cell(each: Combination) -> TableCell:
    """Return a result with its verdict, as a link to its run."""
    bad = not_counted(len(each.bad), len(each.runs)) if len(each.runs) > 1 else standing(each.newest)
    count = plural(len(each.runs), "run")
    detail = bad if each.bad else f"valid, {count}"
    tone, page = "bad" if each.bad else "", run_page(each.newest.run_id)
    return TableCell(each.middle(), detail=detail, tone=tone, order=each.median, page=page)


def _accuracy_cell(runs: Sequence[RunRecord]) -> TableCell:
    """Return the required scores of the newest scored run; for many scores the number that meet their targets."""
    scored = [run for run in sorted(runs, key=lambda run: run.created) if run.accuracy]
    if not scored:
        return TableCell("not measured", tone="quiet")
    missing = [run for run in scored if run.accuracy and not run.accuracy.is_met]
    shown = (missing or scored)[-1]
    assert shown.accuracy
    required = [target for target in shown.accuracy.targets if target.required]
    tone = "bad" if missing else "good"
    if missing or not required:
        return TableCell(accuracy(shown), tone=tone)
    if len(required) > _FEW_SCORES:
        return TableCell(f"{len(required)} of {plural(len(required), 'target')} met", tone=tone)
    spelled = [(target, *spell_target(target)) for target in required]
    limits = [f"target {target_sign(target)} {limit}" for target, _, limit in spelled]
    scores = [f"{target.score} {reached}" for target, reached, _ in spelled]
    return TableCell("\n".join(scores), detail="\n".join(limits), tone=tone)


def _last_change(trend: Trend) -> TableCell:
    """Return the newest change of level of any of a trend's numbers."""
    found = [(history.points[step.index].created, step) for history in trend.histories for step in history.steps]
    if not found:
        return TableCell("none", tone="quiet")
    when, step = max(found, key=lambda each: each[0])
    tone = TONES.get(step.verdict, "")
    return TableCell(f"{step.verdict}, x {step.effect.ratio:.3f}", detail=f"{when:%Y-%m-%d}", tone=tone)


def _moment_cell(when: datetime) -> TableCell:
    return TableCell(f"{when:%Y-%m-%d}", detail=f"{when:%H:%M}", order=when.timestamp())


def changes_table(changes: Sequence[LevelChange], caption: str, *, base: str, has_workload: bool) -> ReportTable | None:
    """Return changes of level, newest first, with other changes; None without any.

    Args:
        changes: newest first.
        caption: of the table.
        base: the relative address of the site's folder.
        has_workload: whether a column names the workload.
    """
    if not changes:
        return None
    columns = ["since, UTC", *(["workload"] if has_workload else []), "combination", "measure"]
    return table(
        caption,
        [*columns, "speed#", "interval#", "change", "other changes"],
        [_change_row(each, base, has_workload) for each in changes],
        is_stacked=True,
    )


def _change_row(change: LevelChange, base: str, has_workload: bool) -> list[TableCell | str]:
    each, step = change.trend.newest, change.step
    page = TableCell(each.workload, page=f"{base}{workload_page(each.workload)}", link="history")
    first_run = short_id(change.run_id)
    return [
        _moment_cell(change.when),
        *([page] if has_workload else []),
        TableCell(change.trend.name, detail=f"first run {first_run}"),
        change.history.measure,
        f"x {step.effect.ratio:.3f}",
        interval_of(step.effect),
        TableCell(str(step.verdict), tone=TONES.get(step.verdict, "")),
        "; ".join(map(str, step.differences)) or TableCell("nothing recorded", tone="quiet"),
    ]


def backends_table(content: WorkloadContent) -> ReportTable | None:
    """Return each backend compared with the first one, number by number; None if nothing was comparable."""
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
        "The newest session of each backend compared with that of the first backend; x 2 is twice as fast",
        ["combination", "measure", "base#", "new#", "speed#", "interval#", "verdict", "accuracy"],
        rows,
        is_stacked=True,
    )


def backends_notes(content: WorkloadContent) -> list[str]:
    """Return the reasons of numbers without a verdict, or with a suspected one."""
    cells = [cell for found in content.comparisons for _, comparison in found.others for cell in comparison.cells]
    return [
        f"{cell.name.removeprefix(f'{content.name} ')}, {each.measure}: {each.reason}."
        for cell in cells
        for each in cell.speeds
        if each.reason
    ]


def _comparison_rows(cell: Cell, workload: str) -> Iterator[list[TableCell | str]]:
    """Yield a row per number of a cell; the first one has its scores."""
    base, new = (name.removeprefix(workload) for name in (cell.base_name, cell.name))
    scores = _scores_cell(cell)
    for each in cell.speeds:
        yield [TableCell(new, detail=f"against {base}"), each.measure, *_speed_cells(each), scores]
        scores = NOTHING


def _scores_cell(cell: Cell) -> TableCell:
    """Return the verdict on the scores against the base's, and those that are worse or not judged."""
    verdicts = {score: score_verdict(cell, score) for score in cell.scores}
    if not verdicts:
        return TableCell("not compared", tone="quiet")
    other = [f"{score.name} {verdict}" for score, verdict in verdicts.items() if verdict != "as accurate"]
    is_worse = "less accurate" in verdicts.values()
    if not other:
        return TableCell("as accurate", tone="good")
    return TableCell(
        "less accurate" if is_worse else "not judged", detail="\n".join(other), tone="bad" if is_worse else ""
    )


def _speed_cells(each: Judged) -> list[TableCell | str]:
    base, new, ratio, interval = speed_texts(each)
    return [
        TableCell(base, detail=plural(len(each.base), "run")),
        TableCell(new, detail=plural(len(each.new), "run")),
        ratio,
        interval,
        TableCell(str(each.verdict), tone=_VERDICTS.get(each.verdict, "")),
    ]
