"""Assembles the page of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlbench.comparison.compare import Comparison
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.reports.comparison import comparison_notes
from mlbench.reports.console import standing
from mlbench.reports.cost import cost_notes
from mlbench.reports.html import (
    conditions,
    course_charts,
    curve_charts,
    latency_charts,
    results,
    run_charts,
    work_charts,
)
from mlbench.reports.html.drawing import Figure, Palette
from mlbench.reports.html.nodes import nodes_table, scaling_table
from mlbench.reports.html.overview import overview_figure
from mlbench.reports.html.precision_chart import precision_figure
from mlbench.reports.html.rendering import render
from mlbench.reports.html.speedups import speedup_table
from mlbench.reports.published import SOURCE
from mlbench.reports.summary import (
    TIERS,
    Combination,
    Content,
    Summary,
    comparison_headline,
    headline,
    not_counted,
    verdicts_of,
)
from mlbench.reports.table import ReportTable
from mlbench.reports.units import plural

MINI_DATA = {
    "real handwritten digits in generated pictures": ("resnet50", "retinanet", "stable-diffusion-xl"),
    "generated data": (
        "3d-unet",
        "bert",
        "dlrm-v2",
        "gptj",
        "llama2-70b",
        "llama3.1-8b",
        "llama3.1-8b-edge",
        "mixtral-8x7b",
    ),
}
"""Data of the built-in workloads' mini profiles."""


def html_page(content: Content) -> str:
    """Return the page."""
    summary, comparison = content.summary, content.comparison
    links = {name: f"#{link}" for name, link in results.links_of(summary).items()}
    palette = Palette(summary.series, links)
    first, last = (pick(run.created for run in summary.runs) for pick in (min, max))
    return render(
        "report.html.jinja",
        title=content.title,
        headline=headline(summary),
        lede=_lede(summary),
        period=f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"
        if first != last
        else f"{first:%Y-%m-%d %H:%M} UTC",
        tiers=[TIERS[tier] for tier in TIERS if any(run.tier == tier for run in summary.runs)],
        mini=_mini(summary),
        imported=sum(1 for run in summary.runs if run.imported),
        conformant=sum(1 for run in summary.runs if run.verdict and run.verdict.is_conformant),
        overview=overview_figure(summary, links),
        problems=list(results.problems(summary)),
        results=results.results_table(summary),
        speedups=speedup_table(summary),
        comparison=_comparison_part(comparison) if comparison else None,
        cost=results.cost_table(content.cost) if content.cost else None,
        cost_notes=cost_notes(content.cost) if content.cost else [],
        palette=palette,
        workloads=[_workload_part(name, content, palette) for name in summary.workloads],
        machines=conditions.machines_table(summary),
        scenario_note=conditions.scenario_note(summary),
        spread=conditions.spread_line(summary),
        published=conditions.notes_on_published(summary),
        published_source=SOURCE.format(", ".join(sorted({run.round for run in content.summary.runs}))),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ComparisonPart:
    headline: str
    tone: str
    figure: Figure | None
    table: ReportTable
    notes: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkloadPart:
    name: str
    figures: Sequence[Figure]
    series: Sequence[str]
    scaling: ReportTable | None
    work: ReportTable
    work_notes: Sequence[str]
    details: Sequence[_RunDetails]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunDetails:
    link: str
    name: str
    middle: str
    standing: str
    is_good: bool
    run_id: str
    runs: ReportTable
    rules: ReportTable | None
    nodes: ReportTable | None
    groups: Mapping[str, Mapping[str, str]]


def _lede(summary: Summary) -> str:
    count = plural(len(summary.runs), "run")
    workloads, backends = (len({getattr(run, name) for run in summary.runs}) for name in ("workload", "backend"))
    machines = {run.environment.machine: run.environment for run in summary.runs}
    where = "; ".join(
        conditions.processor(each) + (f", {conditions.accelerators(each)}" if each.accelerators else ", no accelerator")
        for each in machines.values()
    )
    return f"{count}, {plural(workloads, 'workload')}, {plural(backends, 'backend')}, on {where}."


def _mini(summary: Summary) -> str:
    """Return a note on the data of the mini profiles used; empty if no run is of profile mini."""
    mini = {run.workload for run in summary.runs if run.profile == "mini"}
    found = {kind: sorted(mini.intersection(names)) for kind, names in MINI_DATA.items()}
    what = ", ".join(f"{kind} for {_listed(names)}" for kind, names in found.items() if names)
    return f"Profile mini: small trained models on small data{': ' if what else ''}{what}." if mini else ""


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _is_unsure(comparison: Comparison) -> bool:
    return not verdicts_of(comparison).keys().isdisjoint({SpeedVerdict.SUSPECTED, SpeedVerdict.CANNOT_TELL})


def _comparison_part(comparison: Comparison) -> _ComparisonPart:
    return _ComparisonPart(
        headline=comparison_headline(comparison),
        tone="bad" if comparison.is_worse else "" if _is_unsure(comparison) else "good",
        figure=run_charts.comparison_figure(comparison),
        table=results.comparison_rows_table(comparison),
        notes=list(comparison_notes(comparison)),
    )


def _workload_part(name: str, content: Content, palette: Palette) -> _WorkloadPart:
    combinations = content.summary.of_workload(name)
    links = results.links_of(content.summary)
    return _WorkloadPart(
        name=name,
        figures=_figures(combinations, palette, content),
        series=list(dict.fromkeys(each.series for each in combinations)),
        scaling=scaling_table(combinations),
        work=conditions.work_table(combinations),
        work_notes=conditions.work_notes(combinations),
        details=[
            _RunDetails(
                link=links[each.name],
                name=f"{each.series}, {each.scenario}",
                middle=each.middle(),
                standing=not_counted(len(each.bad), len(each.runs)) if each.bad else standing(each.newest),
                is_good=not each.bad,
                run_id=each.newest.run_id,
                runs=results.runs_table(each),
                rules=results.rules_table(each.newest),
                nodes=nodes_table(each.newest),
                groups=conditions.details_of(each.newest),
            )
            for each in combinations
        ],
    )


def _figures(combinations: Sequence[Combination], palette: Palette, content: Content) -> list[Figure]:
    scenarios: dict[str, list[Combination]] = {}
    for each in combinations:
        scenarios.setdefault(each.scenario, []).append(each)
    figures: list[Figure | None] = [work_charts.accuracy_figure(combinations, palette)]
    figures += curve_charts.curve_figures(combinations, palette)
    for name, some in scenarios.items():
        figures += latency_charts.latency_figures(some, palette)
        figures.append(course_charts.course_figure(some, palette, name, content.folders))
    figures += latency_charts.load_figures(combinations, palette)
    at_once = [each for each in combinations if each.newest.scenario_facts.sends_all_at_once]
    figures.append(precision_figure(at_once, palette))
    figures.append(work_charts.sweep_figure(at_once or combinations, palette))
    figures += [work_charts.occupancy_figure(some, palette, name) for name, some in scenarios.items()]
    for some in scenarios.values():
        figures += run_charts.history_figures(some, palette, content.steps)
    return [figure for figure in figures if figure]
