"""A comparison as a table, as Markdown for a CI summary, and as JUnit XML."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from xml.etree import ElementTree

from rich.table import Table

from mlbench.comparison.compare import Cell, Comparison, Judged, Verdict
from mlbench.comparison.scores import Score
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.units import finite, markdown_cell, quantity, tell_apart

COLUMNS = ("runs", "measure", "base", "new", "change", "interval", "detectable", "verdict")

WORSE = (Verdict.SLOWER, "less accurate", "missing", "no valid run")
"""Verdicts of rows that are regressions."""


def comparison_table(comparison: Comparison) -> Table:
    """Return a row per number, then one per score; what cannot be told says why below."""
    table = Table(title="mlbench compare", caption=DISCLAIMER, title_justify="left", caption_justify="left")
    for heading in COLUMNS:
        table.add_column(heading, justify="right" if heading in COLUMNS[2:7] else "left")
    for cells in comparison_rows(comparison):
        style = "red" if cells[-1] in WORSE else ""
        table.add_row(*cells, style=style)
    return table


def comparison_counts(comparison: Comparison) -> str:
    """Return the line above the table: whether anything is worse, and how much of it was judged at all."""
    counts = f"{comparison.judged} judged, {len(comparison.not_judged)} not judged"
    if comparison.is_worse:
        return f"worse: {counts}"
    if comparison.is_blind:
        return f"nothing could be judged: {counts}"
    return f"no regression in what could be judged: {counts}" if comparison.not_judged else f"no regression: {counts}"


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield the lines below the table: reasons, runs that do not count, facts that differ."""
    yield from (f"{each}." for each in comparison.not_judged)
    for cell in comparison.cells:
        yield from (f"{cell.name}: left out {run}." for run in cell.set_aside)
    differing = dict.fromkeys(str(difference) for cell in comparison.cells for difference in cell.differences)
    yield from (f"{difference}." for difference in differing)
    if any(each.detectable is not None for cell in comparison.cells for each in cell.speeds):
        yield "Detectable: the smallest loss that would be called slower in four of five such comparisons."
    margins = f"less than {comparison.margin:.0%}, of a score less than {comparison.accuracy_margin:.1%}"
    yield f"Called no change: of a speed {margins}."


def print_comparison(comparison: Comparison) -> None:
    """Print counts, table and notes to standard output."""
    from rich.console import Console

    console = Console(width=160)
    console.print(comparison_counts(comparison), highlight=False, markup=False, style="bold")
    console.print(comparison_table(comparison))
    for note in comparison_notes(comparison):
        console.print(f"  {note}", highlight=False, markup=False)


def comparison_markdown(comparison: Comparison, *, title: str) -> str:
    """Return a Markdown page with the same rows and notes."""
    counts = comparison_counts(comparison)
    lines = [f"## {title}", "", counts.replace("worse", "**worse**", 1) if comparison.is_worse else counts, ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(map(markdown_cell, row)) + " |" for row in comparison_rows(comparison)]
    lines += ["", *(f"- {note}" for note in comparison_notes(comparison)), "", DISCLAIMER]
    return "\n".join(lines) + "\n"


def comparison_junit(comparison: Comparison) -> str:
    """Return JUnit XML: a case per number, score, and count of valid runs.

    What is slower, less accurate, missing or lost is a failure; what could not be judged is skipped, with the reason.
    """
    suite = ElementTree.Element("testsuite", name="mlbench regress")
    for cell in comparison.cells:
        for each in cell.speeds:
            skipped = each.reason if each.verdict is Verdict.CANNOT_TELL else ""
            _case(suite, cell.name, each.measure, failure=_failure(each), skipped=skipped)
        for score in cell.scores:
            _case(suite, cell.name, f"accuracy, {score.name}", failure=_fall(cell, score), skipped=score.reason)
        _case(suite, cell.name, "valid runs", failure=_lost(cell), skipped=_left_out(cell))
    for name in comparison.missing:
        _case(suite, name, "present", failure="the base has runs, the new side has none")
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def comparison_json(comparison: Comparison) -> str:
    """Return the comparison with its verdicts as JSON; an infinite end of an interval is null."""
    content = dataclasses.asdict(comparison)
    for cell, fields in zip(comparison.cells, content["cells"], strict=True):
        fields |= {"is_worse": cell.is_worse, "is_less_accurate": cell.is_less_accurate}
    content |= {"is_worse": comparison.is_worse, "is_blind": comparison.is_blind}
    content |= {"judged": comparison.judged, "not_judged": comparison.not_judged}
    return json.dumps(finite(content), indent=2)


def comparison_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield a row per number, per score, and per cell that only one side has, under `COLUMNS`."""
    for cell in comparison.cells:
        yield from (_speed_row(cell, each) for each in cell.speeds)
        yield from (_score_row(cell, score) for score in cell.scores)
        if cell.lost:
            yield (cell.name, "", "", "", "", "", "", "no valid run")
        if cell.is_without_base:
            yield (cell.name, "", "", "", "", "", "", "no valid run in the base")
    yield from ((name, "", "", "", "", "", "", "missing") for name in comparison.missing)
    yield from ((name, "", "", "", "", "", "", "new") for name in comparison.added)


def _speed_row(cell: Cell, each: Judged) -> tuple[str, ...]:
    counts = len(each.base), len(each.new)
    name = each.measure if counts == (1, 1) else f"{each.measure}, {counts[0]} and {counts[1]} runs"
    base, new = (quantity(_middle(values), each.unit) for values in (each.base, each.new))
    if each.effect is None:
        return (cell.name, name, base, new, "", "", "", each.verdict)
    known = math.isfinite(each.effect.high)
    interval = f"{each.effect.low:.3f} to {each.effect.high:.3f}" if known else "unknown"
    detectable = "" if each.detectable is None else f"{each.detectable:.1%}"
    return (cell.name, name, base, new, f"x {each.effect.ratio:.3f}", interval, detectable, each.verdict)


def _score_row(cell: Cell, score: Score) -> tuple[str, ...]:
    base, new = ("none" if value is None else f"{value:.3f}" for value in (score.base, score.new))
    if score.base is not None and score.new is not None:
        new, (base,) = tell_apart(score.new, [score.base], lambda number, decimals: f"{number:.{decimals}f}", 3)
    change = f"{score.change:+.1%}" if score.base is not None and score.new is not None else ""
    return (cell.name, score.name, base, new, change, "", "", _score_verdict(cell, score))


def _score_verdict(cell: Cell, score: Score) -> str:
    if score.is_worse or cell.misses_target:
        return "less accurate"
    return "not judged" if score.reason else "as accurate"


def _middle(values: tuple[float, ...]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _failure(each: Judged) -> str:
    if each.verdict is not Verdict.SLOWER or each.effect is None:
        return ""
    base, new = (quantity(_middle(values), each.unit) for values in (each.base, each.new))
    return f"slower: {base}, then {new} (x {each.effect.ratio:.3f}, {each.effect.low:.3f} to {each.effect.high:.3f})"


def _fall(cell: Cell, score: Score) -> str:
    if cell.misses_target:
        return f"a target is missed: {score.base}, then {score.new}"
    return f"worse by {-score.change:.2%}: {score.base}, then {score.new}" if score.is_worse else ""


def _lost(cell: Cell) -> str:
    return ("the new side has none: " + "; ".join(cell.set_aside)) if cell.lost else ""


def _left_out(cell: Cell) -> str:
    reasons = [each for each in cell.not_judged if each.startswith("valid runs")]
    return "; ".join([*reasons, *cell.set_aside]) if reasons else ""


def _case(suite: ElementTree.Element, cell: str, name: str, *, failure: str, skipped: str = "") -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=cell.replace(" ", "."), name=name)
    if failure:
        ElementTree.SubElement(case, "failure", message=failure)
    elif skipped:
        ElementTree.SubElement(case, "skipped", message=skipped)
