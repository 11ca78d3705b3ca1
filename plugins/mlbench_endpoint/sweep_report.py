"""A sweep as a table on a terminal, as JSON and as a curve."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from mlbench.toolkit import printable
from mlbench_endpoint.sweep import LoadResult

if TYPE_CHECKING:
    import altair

_HEADINGS = ("load", "requests", "req/s", "tokens/s", "TTFT p50", "p90", "p99", "TPOT p50", "p90", "p99", "counts")


def table_lines(results: Sequence[LoadResult]) -> Iterator[str]:
    """Yield the lines of a table with a row per run, at most 100 columns wide, and notes on it."""
    rows = [_HEADINGS, *map(_row, results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        name, *others = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        yield "  ".join([f"{name.strip():<{widths[0]}}", *others]).rstrip()
    if results:
        yield ""
        counted = [result for result in results if result.requests] or results
        tokens_in, tokens_out = (
            fmean(getattr(result, name) for result in counted) for name in ("prompt_tokens", "answer_tokens")
        )
        yield f"Prompts have {tokens_in:.1f} tokens on average, answers {tokens_out:.1f}, by the server's count."
        yield "Times in ms. A percentile is shown if there are enough requests for it: 44 for p90, 459 for p99."
    if any(result.load.rate_per_s for result in results):
        yield "At a rate, LoadGen takes the times, from when a request was due."
    if any(result.load.in_flight for result in results):
        yield "With N at once, mlbench takes the times, from the sending of a request; throughput is LoadGen's."
    for result in results:
        if result.problem:
            yield f"{result.load.label} does not count: {printable(result.problem)}"


def _row(result: LoadResult) -> tuple[str, ...]:
    return (
        result.load.label,
        str(result.requests),
        f"{result.requests_per_s:,.3g}",
        f"{result.tokens_per_s:,.0f}",
        *(times.text(name) for times in (result.ttft, result.tpot) for name in ("p50", "p90", "p99")),
        "INVALID" if result.problem else "valid",
    )


def results_json(results: Sequence[LoadResult]) -> str:
    """Return a JSON array with an object per run."""
    return json.dumps([asdict(result) for result in results], indent=2)


def draw_curve(results: Sequence[LoadResult], title: str, file: Path) -> None:
    """Draw times of tokens over throughput as an SVG file: a line for each percentile, a point for each run.

    Raises:
        ImportError: altair or vl-convert is missing.
        OSError: the file cannot be written.
    """
    import altair

    rows = [
        {
            "tokens_per_s": result.tokens_per_s,
            "ms": times.ns[name] / 1e6,
            "percentile": name,
            "kind": kind,
            "load": result.load.label,
            "way": f"{name}, {'at a rate' if result.load.rate_per_s else 'N at once'}",
        }
        for result in results
        if not result.problem
        for kind, times in (("TTFT", result.ttft), ("TPOT", result.tpot))
        for name in times.ns
    ]
    panels = [_panel([row for row in rows if row["kind"] == kind], kind) for kind in ("TTFT", "TPOT")]
    chart = altair.hconcat(*panels).properties(title=printable(title), background="white")
    chart.save(str(file), format="svg")


def _panel(rows: Sequence[dict[str, object]], kind: str) -> altair.LayerChart:
    import altair

    base = altair.Chart(altair.InlineData(values=list(rows))).encode(
        x=altair.X("tokens_per_s:Q").title("tokens/s"),
        y=altair.Y("ms:Q").title(f"{kind}, ms").scale(zero=True),
        color=altair.Color("way:N").title(None),
        order="tokens_per_s:Q",
    )
    names = base.mark_text(dy=-9, fontSize=10).encode(text="load:N", color=altair.value("#555"))
    return altair.LayerChart(layer=[base.mark_line(point=True), names], width=340, height=260)
