"""The first tables: results in the layout of the official page, and failures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlbench.comparison.compare import Comparison
from mlbench.comparison.cost import Yields
from mlbench.comparison.verdicts import SpeedVerdict
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.statistics import GenerationStatistics
from mlbench.records.run_record import RunRecord, TargetRecord
from mlbench.reports.comparison import COLUMNS, WORSE, comparison_rows
from mlbench.reports.console import (
    ESTIMATE_NOTE,
    accuracy,
    estimate_note,
    format_rule_values,
    p99,
    result,
    spell_target,
    standing,
)
from mlbench.reports.cost import cost_columns, cost_rows
from mlbench.reports.summary import Combination, Summary, not_counted
from mlbench.reports.table import ReportTable, TableCell, table
from mlbench.reports.units import plural, three_digits

NOTHING = TableCell("\N{EN DASH}", tone="quiet")
"""Cell of a scenario that a row does not have."""

_MOST_TAGS = 3
"""So many are named."""

_LATENCY_RULES = {"latency_limit": "latency", "ttft": "TTFT", "tpot": "TPOT"}
"""Rules that limit a latency, with its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A combination with runs that are not valid."""

    name: str
    link: str
    standing: str
    findings: tuple[tuple[str, str], ...]
    """Failures, each with its fix."""
    log_tail: str = ""


def links_of(summary: Summary) -> Mapping[str, str]:
    """Return the anchor of each combination's details, by its name."""
    return {each.name: f"runs-{number}" for number, each in enumerate(summary.combinations, 1)}


def results_table(summary: Summary) -> ReportTable:
    """Return a row per workload and series: accuracy, then a result per scenario."""
    links = links_of(summary)
    rows = [
        [
            TableCell(workload, detail=_data(found.values())),
            TableCell(series, detail=origin(found.values())),
            _accuracy_cell(found.values()),
            *_result_cells(found, summary.scenarios, links),
        ]
        for (workload, series), found in summary.by_series.items()
    ]
    return series_table(with_estimates("Results: medians of the valid runs", summary), summary, ["accuracy"], rows)


def with_estimates(caption: str, summary: Summary) -> str:
    """Return a caption, with the note on estimates if there are any."""
    return f"{caption}. {ESTIMATE_NOTE}" if any(map(estimate_note, summary.runs)) else caption


def series_table(
    caption: str, summary: Summary, facts: Sequence[str], rows: Sequence[Sequence[TableCell | str]]
) -> ReportTable:
    """Return a table with a row for each series of a workload: its facts, then a column per scenario."""
    columns = ["workload", "backend", *facts, *(f"{scenario}#" for scenario in summary.scenarios)]
    return table(caption, columns, rows, is_sortable=len(rows) > 2, is_stacked=True)


def origin(combinations: Iterable[Combination]) -> str:
    """Return which tags a row's runs have, and whether any was imported."""
    runs = [run for each in combinations for run in each.runs]
    tags = [f"tag {tag}" for tag in dict.fromkeys(run.tag for run in runs) if tag]
    shown = tags if len(tags) <= _MOST_TAGS else [plural(len(tags), "tag")]
    return ", ".join([*shown, *(["imported"] if any(run.imported for run in runs) else [])])


def _data(combinations: Iterable[Combination]) -> str:
    """Return the data of a row's runs, and the length of token answers."""
    runs = [each.newest for each in combinations]
    facts = [str(runs[0].profile)]
    facts += [f"rules of {each}" for each in dict.fromkeys(run.round for run in runs) if each != DEFAULT_ROUND]
    if count := max(run.samples.get("dataset", 0) for run in runs):
        facts.append(plural(count, "sample"))
    if tokens := next(filter(None, map(tokens_per_answer, runs)), None):
        facts.append(f"{three_digits(tokens)} tokens per answer")
    return ", ".join(facts)


def tokens_per_answer(run: RunRecord) -> float | None:
    """Return the mean length of a run's answers by its engine's counts; None if it has no counts."""
    counted = run.engine
    if not isinstance(counted, GenerationStatistics) or not counted.samples:
        return None
    return counted.new_tokens / counted.samples or None


def _accuracy_cell(combinations: Iterable[Combination]) -> TableCell:
    """Return the newest scores of a row, or those that miss a target."""
    scored = [run.accuracy for each in combinations for run in each.runs if run.accuracy]
    if not scored:
        return TableCell("not measured", tone="quiet")
    missing = [each for each in scored if not each.is_met]
    shown = (missing or scored)[-1]
    required = [target for target in shown.targets if target.required]
    details = list(_single_score(shown.targets) if len(required) == 1 else _variants(shown.targets))
    shared = sum(bool(each.tested_in) for each in scored)
    details += [f"{shared} of {plural(len(scored), 'run')} reused an earlier accuracy test"] if shared else []
    details += [f"missed in {len(missing)} of {plural(len(scored), 'run')}"] if missing else []
    reported = required or list({target.score: target for target in shown.targets}.values())
    scores = [f"{target.score} {spell_target(target)[0]}" for target in reported] or ["no target"]
    tone = "bad" if missing else ("good" if required else "")
    return TableCell(
        "\n".join(scores), detail="\n".join(details if required else ["none required", *details]), tone=tone
    )


def _single_score(targets: Sequence[TargetRecord]) -> Iterator[str]:
    """Yield each accuracy variant's target for the single score, the required one first."""
    for target in sorted(targets, key=lambda each: not each.required):
        limit = f"{'at most ' if target.lower is None else ''}{spell_target(target)[1]}"
        yield f"target {limit}" if target.required else f"{target.name}: {limit} {'met' if target.is_met else 'missed'}"


def _variants(targets: Sequence[TargetRecord]) -> Iterator[str]:
    """Yield the number of targets met: of the required ones, then of each other accuracy variant."""
    groups: dict[str, list[TargetRecord]] = {}
    for target in sorted(targets, key=lambda each: not each.required):
        groups.setdefault("" if target.required else f"{target.name}: ", []).append(target)
    for name, group in groups.items():
        yield f"{name}{sum(target.is_met for target in group)} of {plural(len(group), 'target')} met"


def _result_cells(
    found: Mapping[str, Combination], scenarios: Sequence[str], links: Mapping[str, str]
) -> Iterator[TableCell]:
    for scenario in scenarios:
        if each := found.get(scenario):
            bad = not_counted(len(each.bad), len(each.runs)) if each.bad and len(each.runs) > 1 else ""
            detail = "; ".join(filter(None, (each.spread(), bad)))
            tone = "bad" if each.bad else ""
            lines = "\n".join(filter(None, (detail, *_latency_limits(each.newest))))
            yield TableCell(each.middle(), detail=lines, tone=tone, order=each.median, link=links[each.name])
        else:
            yield NOTHING


def _latency_limits(run: RunRecord) -> Iterator[str]:
    """Yield each latency with a limit, and the limit."""
    for rule in run.verdict.rules if run.verdict else ():
        if name := _LATENCY_RULES.get(rule.rule):
            measured, limit = format_rule_values(rule)
            yield f"{name} {measured} of {limit}"


def problems(summary: Summary) -> Iterator[Problem]:
    """Yield the failed rules and fixes of the newest failing run of each combination."""
    links = links_of(summary)
    for each in summary.combinations:
        if not each.bad:
            continue
        run = each.bad[-1]
        count = f" ({len(each.bad)} of {len(each.runs)} runs)" if len(each.runs) > 1 else ""
        if run.failure:
            yield Problem(
                name=each.name,
                link=links[each.name],
                standing=f"{run.failure.kind} during {run.failure.stage}{count}",
                findings=((run.failure.message, ""),),
                log_tail=run.failure.log_tail.rstrip(),
            )
        else:
            yield Problem(
                name=each.name,
                link=links[each.name],
                standing=(standing(run) if standing(run) != "valid" else "not accurate") + count,
                findings=tuple(_findings(run)),
            )


def _findings(run: RunRecord) -> Iterator[tuple[str, str]]:
    assert run.verdict
    for rule in run.verdict.rules:
        if rule.required and not rule.passed:
            measured, limit = format_rule_values(rule)
            yield f"{rule.rule}: {measured}, limit {limit}.", rule.fix


def rules_table(run: RunRecord) -> ReportTable | None:
    """Return each rule of a run, and those that could not be applied; None for a failed run."""
    if not run.verdict:
        return None
    rows: list[list[TableCell | str]] = [
        [
            rule.rule,
            *format_rule_values(rule),
            TableCell("passed", tone="good")
            if rule.passed
            else TableCell("failed" if rule.required else "missed", tone="bad"),
            TableCell(rule.fix or "\N{EN DASH}", detail=rule.source),
        ]
        for rule in run.verdict.rules
    ]
    rows += [
        [rule, "", "", TableCell("not applied", tone="quiet"), reason]
        for rule, reason in run.verdict.not_applied.items()
    ]
    return table("Rules", ["rule", "measured#", "limit#", "verdict", "fix, and source of the rule"], rows)


def comparison_rows_table(comparison: Comparison) -> ReportTable:
    """Return the comparison as `mlbench compare` prints it."""
    numbers = {"base", "new", "change", "interval", "detectable"}
    tones: dict[str, str] = dict.fromkeys((SpeedVerdict.FASTER, SpeedVerdict.BETTER), "good")
    tones |= {SpeedVerdict.CANNOT_TELL: "quiet", **dict.fromkeys(WORSE, "bad")}
    return table(
        "Both sides, number by number",
        [f"{name}#" if name in numbers else name for name in COLUMNS],
        [[*row[:-1], TableCell(row[-1], tone=tones.get(row[-1], ""))] for row in comparison_rows(comparison)],
        is_stacked=True,
    )


def cost_table(cost: Yields) -> ReportTable:
    """Return throughputs and their cost as `mlbench cost` prints them."""
    return table(
        "Throughput per unit of money, repeats pooled",
        cost_columns(cost),
        cost_rows(cost),
        is_stacked=True,
    )


def runs_table(combination: Combination) -> ReportTable:
    """Return every run of a combination, newest first."""
    rows: list[list[TableCell | str]] = [
        [
            TableCell(run.run_id, detail=f"imported from {run.imported.path}" if run.imported else ""),
            TableCell(result(run), order=run.result.value if run.result else None),
            p99(run),
            TableCell(standing(run), tone="good" if run.is_good else "bad"),
            accuracy(run),
        ]
        for run in reversed(combination.runs)
    ]
    return table(
        "Runs, newest first", ["run", "result#", "p99 latency#", "performance", "accuracy"], rows, is_stacked=True
    )
