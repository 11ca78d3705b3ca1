"""The same summary as Markdown: for a pull request, a wiki, a CI job's page."""

from __future__ import annotations

from collections.abc import Iterator

from mlbench.reports.comparison import comparison_markdown
from mlbench.reports.console import DISCLAIMER, ESTIMATE_NOTE, conditions, estimate_note
from mlbench.reports.cost import cost_notes
from mlbench.reports.html.results import cost_table, problems, results_table
from mlbench.reports.plain_text import markdown_text
from mlbench.reports.summary import Content, headline
from mlbench.reports.table import markdown_lines


def summary_markdown(content: Content) -> str:
    """Return title, verdict, failures, the comparison if there is one, and a row per workload and backend."""
    return "\n".join(_lines(content)) + "\n"


def _lines(content: Content) -> Iterator[str]:
    summary = content.summary
    yield from (f"# {markdown_text(content.title)}", "", f"**{headline(summary)}**", "")
    for problem in problems(summary):
        yield f"- {markdown_text(problem.name)}: {markdown_text(problem.standing)}"
        yield from (f"  - {markdown_text(f'{what} {fix}')}" for what, fix in problem.findings)
    if content.comparison:
        yield comparison_markdown(content.comparison, title="Comparison")
    yield from ("", *markdown_lines(results_table(summary)), "")
    if any(map(estimate_note, summary.runs)):
        yield f"{ESTIMATE_NOTE}\n"
    if content.cost:
        yield from (*markdown_lines(cost_table(content.cost)), "")
        yield from (f"{markdown_text(note)}\n" for note in cost_notes(content.cost))
    yield from (markdown_text(conditions(summary.runs)), "", DISCLAIMER)
