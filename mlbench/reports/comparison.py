"""A comparison as a table, as Markdown for a CI summary, and as JUnit XML."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from xml.etree import ElementTree

from rich.table import Table

from mlbench.comparison.compare import Cell, Comparison, Judged, Score, Verdict
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.units import finite, markdown_cell, quantity, tell_apart

COLUMNS = ("runs", "measure", "base", "new", "speed", "interval", "verdict")

WORSE = (Verdict.SLOWER, "less accurate", "missing", "no valid run")
"""Verdicts of rows that are regressions."""


def comparison_table(comparison: Comparison) -> Table:
    """Return a row per number, then one per score; what cannot be told says why below."""
    table = Table(title="mlbench compare", caption=DISCLAIMER, title_justify="left", caption_justify="left")
    for heading in COLUMNS:
        table.add_column(heading, justify="right" if heading in ("base", "new", "speed", "interval") else "left")
    for cells in comparison_rows(comparison):
        style = "red" if cells[-1] in WORSE else ""
        table.add_row(*cells, style=style)
    return table


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield the lines below the table: reasons, runs that do not count, facts that differ."""
    for cell in comparison.cells:
        yield from (f"{cell.name}, {each.measure}: {each.reason}." for each in cell.speeds if each.reason)
        yield from (f"{cell.name}: left out {run}." for run in cell.set_aside)
    differing = dict.fromkeys(str(difference) for cell in comparison.cells for difference in cell.differences)
    yield from (f"{difference}." for difference in differing)
    yield f"A change of less than {comparison.margin:.0%} is called none."


def print_comparison(comparison: Comparison) -> None:
    """Print table and notes to standard output."""
    from rich.console import Console

    console = Console(width=160)
    console.print(comparison_table(comparison))
    for note in comparison_notes(comparison):
        console.print(f"  {note}", highlight=False, markup=False)


def comparison_markdown(comparison: Comparison, *, title: str) -> str:
    """Return a Markdown page with the same rows and notes."""
    lines = [f"## {title}", "", "**worse**" if comparison.is_worse else "no regression", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(map(markdown_cell, row)) + " |" for row in comparison_rows(comparison)]
    lines += ["", *(f"- {note}" for note in comparison_notes(comparison)), "", DISCLAIMER]
    return "\n".join(lines) + "\n"


def comparison_junit(comparison: Comparison) -> str:
    """Return JUnit XML: a test case per number and score; slower, less accurate, missing and lost ones are failures."""
    suite = ElementTree.Element("testsuite", name="mlbench regress")
    for cell in comparison.cells:
        for each in cell.speeds:
            case = _case(suite, cell.name, each.measure, failure=_failure(each))
            if each.verdict is Verdict.CANNOT_TELL:
                ElementTree.SubElement(case, "skipped", message=each.reason)
        if cell.scores:
            _case(suite, cell.name, "accuracy", failure="a target is missed" if cell.is_less_accurate else "")
        if cell.lost:
            _case(suite, cell.name, "valid runs", failure="; ".join(cell.set_aside))
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
    content = dataclasses.asdict(comparison) | {"is_worse": comparison.is_worse}
    return json.dumps(finite(content), indent=2)


def comparison_rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Yield a row per number, per score, and per cell that only one side has, under `COLUMNS`."""
    for cell in comparison.cells:
        yield from (_speed_row(cell, each) for each in cell.speeds)
        yield from (_score_row(cell, score) for score in cell.scores)
        if cell.lost:
            yield (cell.name, "", "", "", "", "", "no valid run")
    yield from ((name, "", "", "", "", "", "missing") for name in comparison.missing)
    yield from ((name, "", "", "", "", "", "new") for name in comparison.added)


def _speed_row(cell: Cell, each: Judged) -> tuple[str, ...]:
    name = each.measure if len(each.new) == 1 else f"{each.measure}, {len(each.base)} and {len(each.new)} runs"
    base, new = (quantity(_middle(values), each.unit) for values in (each.base, each.new))
    if each.effect is None:
        return (cell.name, name, base, new, "", "", each.verdict)
    known = math.isfinite(each.effect.high)
    interval = f"{each.effect.low:.3f} to {each.effect.high:.3f}" if known else "unknown"
    return (cell.name, name, base, new, f"x {each.effect.ratio:.3f}", interval, each.verdict)


def _score_row(cell: Cell, score: Score) -> tuple[str, ...]:
    base, new = ("none" if value is None else f"{value:.3f}" for value in (score.base, score.new))
    if score.base is not None and score.new is not None:
        new, (base,) = tell_apart(score.new, [score.base], lambda number, decimals: f"{number:.{decimals}f}", 3)
    return (cell.name, score.name, base, new, "", "", "less accurate" if cell.is_less_accurate else "target as before")


def _middle(values: tuple[float, ...]) -> float:
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _failure(each: Judged) -> str:
    if each.verdict is not Verdict.SLOWER or each.effect is None:
        return ""
    base, new = (quantity(_middle(values), each.unit) for values in (each.base, each.new))
    return f"slower: {base}, then {new} (x {each.effect.ratio:.3f}, {each.effect.low:.3f} to {each.effect.high:.3f})"


def _case(suite: ElementTree.Element, cell: str, name: str, *, failure: str) -> ElementTree.Element:
    case = ElementTree.SubElement(suite, "testcase", classname=cell.replace(" ", "."), name=name)
    if failure:
        ElementTree.SubElement(case, "failure", message=failure)
    return case
