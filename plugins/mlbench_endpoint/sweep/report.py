"""A sweep as a table on a terminal, as JSON and as a curve."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from mlbench.toolkit import printable
from mlbench_endpoint.client.token_count import BY_SERVER
from mlbench_endpoint.servers.server_metrics import metrics_text
from mlbench_endpoint.sweep.results import LoadResult, Percentiles, short

if TYPE_CHECKING:
    import altair

_PERCENTILES = ("p50", "p90", "p95", "p99")
_WIDTH = 100
_SPARE, _SPARE_OF_ALL = (8, 5), (3, 2)
"""Columns that a table does without where it would be wider: p90 of TPOT and TTFT; p95 and p90 of all quantities."""


def table_lines(results: Sequence[LoadResult], *, is_wide: bool = False) -> Iterator[str]:
    """Yield the lines of a table with a row per run, at most 100 columns wide, and notes on it.

    ``is_wide`` adds a table of all quantities, with a row for each quantity of a run.
    """
    yield from _fit([_headings(results), *(_row(each, results) for each in results)], _SPARE)
    if is_wide and results:
        yield ""
        headings = ("with 95 % intervals", "value, p50", *_PERCENTILES[1:])
        yield from _fit([headings, *(row for each in results for row in _rows(each))], _SPARE_OF_ALL)
    if results:
        yield ""
        counted = [result for result in results if result.requests] or results
        tokens_in, tokens_out = (
            fmean(getattr(result, name) for result in counted) for name in ("prompt_tokens", "answer_tokens")
        )
        others = sorted({result.counted_by for result in results} - {BY_SERVER})
        by = f"the count of {' and '.join(others)}" if others else "the server's count"
        prompts = f"Prompts have {tokens_in:.1f} tokens on average" if tokens_in else "The prompts' tokens are unknown"
        yield f"{prompts}, answers {tokens_out:.1f}, by {by}."
        yield "Times in ms. A percentile needs enough requests: 44 for p90, 90 for p95, 459 for p99."
    yield from dict.fromkeys(printable(note) for result in results for note in result.notes)
    if any(result.ttft.source == "LoadGen" for result in results):
        yield "At a rate, LoadGen takes the times, from when a request was due."
    if any(result.ttft.source != "LoadGen" for result in results):
        yield "With N at once, in sessions and schedules, mlbench takes the times, from the sending of a request,"
        yield "without the first and last ones, during which fewer run; throughput is LoadGen's, of all."
    if any(result.goodput for result in results):
        yield "good: the share of requests within all limits; their rate: --wide."
    for result in results:
        if result.server_metrics:
            yield f"{result.load.label}, server's metrics: {metrics_text(result.server_metrics)}"
            yield from (f"{result.load.label}: {remark}" for remark in result.server_metrics["remarks"])
        if result.problem:
            yield f"{result.load.label} does not count: {printable(result.problem)}"


def _fit(rows: Sequence[Sequence[str]], spare: Sequence[int]) -> Sequence[str]:
    """Return the lines of a table, without as few of its spare columns as its numbers leave no room for."""
    for count in range(len(spare) + 1):
        lines = [*_aligned([[cell for column, cell in enumerate(row) if column not in spare[:count]] for row in rows])]
        if max(map(len, lines)) <= _WIDTH:
            break
    return lines


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        others = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([f"{row[0]:<{widths[0]}}", *others]).rstrip()


def _headings(results: Sequence[LoadResult]) -> tuple[str, ...]:
    last = "good" if any(result.goodput for result in results) else "e2e p90"
    return ("load", "requests", "req/s", "tokens/s", "TTFT p50", "p90", "p99", "TPOT p50", "p90", "p99", last, "counts")


def _rows(result: LoadResult) -> Iterator[tuple[str, ...]]:
    """Yield a row for each quantity of a run: percentiles, or a value, with their intervals."""
    window, good = result.window, result.goodput or {}
    times = {"TTFT": result.ttft, "TPOT": result.tpot, "between chunks": result.itl}
    times |= {"e2e": result.e2e, "e2e per token": result.e2e_per_token}
    values = {
        "req/s": _estimate_text(window.get("requests_per_s"), short),
        "tokens in/s": _estimate_text(window.get("prompt_tokens_per_s"), short),
        "tokens out/s": _estimate_text(window.get("answer_tokens_per_s"), short),
        "good": _estimate_text(good.get("share"), "{:.1%}".format),
        "good req/s": _estimate_text(good.get("requests_per_s"), short),
    }
    blank = ("",) * len(_PERCENTILES)
    yield (result.load.label, *blank)
    for name, each in times.items():
        unit, unit_ns = ("s", 1e9) if each.ns.get("p50", 0) >= 1e9 else ("ms", 1e6)
        yield (f"  {name}, {unit}", *(_time_text(each, percentile, unit_ns) for percentile in _PERCENTILES))
    for name, text in values.items():
        if good or not name.startswith("good"):
            yield (f"  {name}", text, *blank[1:])


def _time_text(times: Percentiles, name: str, unit_ns: float) -> str:
    if name not in times.ns:
        return "-"
    low, high = ("" if each is None else short(each / unit_ns) for each in times.intervals.get(name, (None, None)))
    return f"{short(times.ns[name] / unit_ns)} [{low}, {high}]"


def _estimate_text(found: Mapping[str, float] | None, text: Callable[[float], str]) -> str:
    if not found:
        return "-"
    low, high = ("" if found[end] is None else text(found[end]) for end in ("low", "high"))
    return f"{text(found['value'])} [{low}, {high}]"


def _row(result: LoadResult, results: Sequence[LoadResult]) -> tuple[str, ...]:
    last = result.e2e.text("p90")
    if any(each.goodput for each in results):
        last = f"{result.goodput['share']['value']:.1%}" if result.goodput else "-"
    return (
        result.load.label,
        str(result.requests),
        short(result.requests_per_s),
        f"{result.tokens_per_s:,.0f}",
        *(times.text(name) for times in (result.ttft, result.tpot) for name in ("p50", "p90", "p99")),
        last,
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
