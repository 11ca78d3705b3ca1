"""Published results as a table, and the rank of a run among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.records.published import AcceleratorRounds, Published, Rank, list_rounds, merge_variants
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.table import table
from mlbench.reports.text_table import TextColumn, TextTable, build_table, fit_columns, wrapped_table
from mlbench.reports.units import three_digits

SOURCE = "MLPerf Inference {}, as published by MLCommons; see results/mlbench_published/README.md."
"""With the round, or rounds."""

HEADINGS = (
    *("id", "division", "submitter", "status", "accelerator", "benchmark", "scenario"),
    *("number", "value", "per accelerator", "unit"),
)
NUMBERS = ("number", "value", "per accelerator")
DROPPED_FIRST = ("division", "status", "per accelerator", "number")
"""Columns to drop on a narrow console, in this order."""
PUBLISHED_WIDTH = 200
"""Columns of the whole table."""


def build_published_table(results: Sequence[Published], width: int = PUBLISHED_WIDTH) -> TextTable:
    """Return a row per published run, with its value per accelerator; one for two accuracies appears once.

    A narrow console gets fewer columns.
    """
    rows = [_cells(each, variants) for each, variants in merge_variants(results)]
    columns = [
        TextColumn(
            heading=heading,
            cells=[row[number] for row in rows],
            justify="right" if heading in NUMBERS else "left",
            is_cropped=heading in ("accelerator", "submitter", "benchmark"),
        )
        for number, heading in enumerate(HEADINGS)
    ]
    choices = ([each for each in columns if each.heading not in DROPPED_FIRST[:count]] for count in range(5))
    return build_table(fit_columns(choices, width), width, caption=_source(results))


def build_rounds_table(found: Sequence[AcceleratorRounds]) -> TextTable:
    """Return a row per accelerator, with its best value of each round, per accelerator, and the change."""
    rounds = list_rounds(found)
    rows = [
        [
            each.accelerator,
            f"{each.benchmark} {', '.join(each.variants)}",
            each.scenario,
            *(_best_cell(each.best.get(name)) for name in rounds),
            each.unit,
            f"{each.change:.3f} x" if each.change else "-",
        ]
        for each in found
    ]
    headings = ["accelerator", "benchmark", "scenario", *(f"{name}#" for name in rounds), "unit", "change#"]
    shown = table("", headings, rows)
    caption = f"The best closed result per accelerator. {SOURCE.format(', '.join(rounds))}"
    return wrapped_table(shown, overflow="fold", caption=caption)


def _best_cell(best: Published | None) -> str:
    return f"{three_digits(best.per_accelerator)} ({best.result_id})" if best else "-"


def _source(results: Sequence[Published]) -> str:
    return SOURCE.format(", ".join(dict.fromkeys(each.round for each in results)))


def _cells(each: Published, variants: str) -> tuple[str, ...]:
    return (
        each.result_id,
        each.division,
        each.submitter,
        each.availability,
        each.accelerator or each.processor,
        f"{each.benchmark} {variants}",
        f"{each.scenario} (inferred)" if each.inferred_from else each.scenario,
        str(each.accelerators or "-"),
        f"{each.value:,.6g}",
        three_digits(each.per_accelerator) if each.accelerators and each.unit != "ms" else "-",
        each.unit,
    )


def place_lines(place: Rank) -> Iterator[str]:
    """Yield the neighbours of a run and its own line between them, best first."""
    for each in place.better:
        yield _line(each)
    own = f"this run, rank {place.rank} of {place.of} (accuracy {place.variant})"
    yield f"  {own:<70} {three_digits(place.per_accelerator):>12} {place.unit}"
    for each in place.worse:
        yield _line(each)
    yield ""
    used = f"Per accelerator; this run used {place.accelerators}" if place.accelerators else "Per system"
    kind = "Latency" if place.unit == "ms" else used
    yield f"{kind}; different systems, software and dates. Not a comparison that MLCommons has reviewed."
    yield DISCLAIMER


def _line(each: Published) -> str:
    name = f"{each.submitter}, {each.accelerators} x {each.accelerator}" if each.accelerators else each.processor
    mark = f" ({each.availability})" if each.is_preview else ""
    named = f"{name[: 60 - len(mark)]}{mark}"
    return f"  {each.result_id}  {named:<60} {three_digits(each.per_accelerator):>12} {each.unit}"


def rows_table(rows: Sequence[dict[str, str]]) -> TextTable:
    """Return the rows of a file, without columns that are empty in all rows."""
    columns = [name for name in rows[0] if any(row[name] for row in rows)]
    shown = table("", columns, [[row[name] for name in columns] for row in rows])
    return wrapped_table(shown, overflow="fold", caption=SOURCE.format(DEFAULT_ROUND))
