"""The pages of the site, one after another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlbench.records.store.stored_runs import StoredRuns
from mlbench.reports.console import standing
from mlbench.reports.explanation import sentence
from mlbench.reports.html import conditions, results
from mlbench.reports.html.drawing import Figure, Palette
from mlbench.reports.html.latency_charts import latency_figures
from mlbench.reports.html.nodes import nodes_table
from mlbench.reports.html.overview import overview_figure
from mlbench.reports.html.rendering import render
from mlbench.reports.html.run_charts import HISTORY_LEAST
from mlbench.reports.site import tables
from mlbench.reports.site.charts import history_figure
from mlbench.reports.site.content import LevelChange, Trend, WorkloadContent, read_workloads, run_page, workload_page
from mlbench.reports.summary import TIERS, Combination, Summary, headline
from mlbench.reports.units import number_of, plural

MOST_CHARTS = 40
"""Most charts of a workload: those of the combinations that ran last."""

_MOST_CHANGES = 20
"""Most changes of level on the first page: the newest."""


def site_pages(stored: StoredRuns, title: str, margin: float | Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """Yield each page's path and text; the first page comes last, since it summarises the others.

    Args:
        stored: the runs of a results folder.
        title: of the site.
        margin: smaller relative changes of level are ignored.
    """
    combinations: list[Combination] = []
    changes: list[LevelChange] = []
    for content in read_workloads(stored, margin):
        yield workload_page(content.name), _workload_page(content, title)
        for each in content.summary.combinations:
            yield run_page(each.newest.run_id), _run_page(each, title)
        combinations += content.summary.combinations
        changes = sorted([*changes, *content.changes], key=lambda each: each.when, reverse=True)[:_MOST_CHANGES]
    yield "index.html", _index(Summary(tuple(combinations)), changes, stored, title)


def _index(summary: Summary, changes: Sequence[LevelChange], stored: StoredRuns, title: str) -> str:
    problems = list(results.problems(summary))
    caption = f"Changes of level, the newest {len(changes)}" if len(changes) == _MOST_CHANGES else "Changes of level"
    return render(
        "site_index.html.jinja",
        title=title,
        base="",
        period=_period(summary),
        headline=headline(summary),
        is_good=not problems,
        lede=_lede(summary, stored),
        tiers=[TIERS[tier] for tier in TIERS if any(run.tier == tier for run in summary.runs)],
        workloads={name: workload_page(name) for name in summary.workloads},
        overview=overview_figure(summary, {each.name: run_page(each.newest.run_id) for each in summary.combinations}),
        machines=conditions.machines_table(summary),
        results=tables.overview_table(summary),
        scenario_note=conditions.scenario_note(summary),
        changes=tables.changes_table(changes, caption, base="", has_workload=True),
        problems=problems,
        links=tables.links_to_runs(summary, ""),
    )


def _lede(summary: Summary, stored: StoredRuns) -> str:
    """Return the number of runs, workloads and backends, and the machines."""
    backends = len({run.backend for run in summary.runs})
    processors = dict.fromkeys(conditions.processor(run.environment) for run in summary.runs)
    left_out = f" {number_of(stored.left_out)} runs of older kinds are left out." if stored.left_out else ""
    return (
        f"{plural(stored.count, 'stored run')} of {plural(len(summary.workloads), 'workload')} on "
        f"{plural(backends, 'backend')}, on {'; '.join(processors)}. The pages show the newest session of "
        f"each combination: {plural(len(summary.runs), 'run')}.{left_out}"
    )


def _period(summary: Summary) -> str:
    """Return when the newest session began."""
    return f"newest run {max(run.created for run in summary.runs):%Y-%m-%d %H:%M} UTC"


def _workload_page(content: WorkloadContent, site: str) -> str:
    summary, problems = content.summary, list(results.problems(content.summary))
    figures, left_out = _figures(content.trends)
    return render(
        "site_workload.html.jinja",
        title=content.name,
        base="../",
        site=site,
        period=_period(summary),
        headline=headline(summary),
        is_good=not problems,
        results=tables.newest_table(content),
        problems=problems,
        links=tables.links_to_runs(summary, "../"),
        backends=tables.backends_table(content),
        backends_notes=tables.backends_notes(content),
        figures=figures,
        charts_left_out=left_out,
        changes=tables.changes_table(content.changes, "Changes of level, newest first", base="../", has_workload=False),
    )


def _figures(trends: Sequence[Trend]) -> tuple[Mapping[str, Sequence[Figure]], int]:
    """Return the charts of each scenario, and the number left out."""
    every = [
        (trend, history) for trend in trends for history in trend.histories if len(history.points) >= HISTORY_LEAST
    ]
    newest = sorted(every, key=lambda each: each[1].points[-1].created, reverse=True)[:MOST_CHARTS]
    shown = {id(history) for _, history in newest}
    figures: dict[str, list[Figure]] = {}
    for trend, history in every:
        if id(history) in shown:
            title = f"{trend.newest.series}: {history.measure}"
            figures.setdefault(trend.newest.scenario, []).append(history_figure(title, history))
    return figures, len(every) - len(newest)


def _run_page(combination: Combination, site: str) -> str:
    run = combination.newest
    return render(
        "site_run.html.jinja",
        title=f"{combination.series}, {run.scenario}",
        base="../",
        site=site,
        workload=run.workload,
        workload_page=f"../{workload_page(run.workload)}",
        period=f"{run.created:%Y-%m-%d %H:%M:%S} UTC, {standing(run)}",
        sentence=sentence(run),
        is_good=run.is_good,
        run_id=run.run_id,
        figures=latency_figures([combination], Palette((combination.series,))),
        runs=results.runs_table(combination),
        rules=results.rules_table(run),
        nodes=nodes_table(run),
        log_tail=run.failure.log_tail.rstrip() if run.failure else "",
        groups=conditions.details_of(run),
        machines=conditions.machines_table(Summary((combination,))),
    )
