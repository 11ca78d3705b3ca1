"""The cost of throughputs, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from mlbench.comparison.cost import Yield, Yields
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.table import table
from mlbench.reports.text_table import TextTable, wrapped_table
from mlbench.reports.units import three_digits

_MILLION = 1e6


def cost_table(yields: Yields) -> TextTable:
    """Return a row per group of repeated runs and instance."""
    shown = table("", cost_columns(yields), cost_rows(yields))
    return wrapped_table(shown, title="mlbench cost", caption=DISCLAIMER)


def cost_columns(yields: Yields) -> tuple[str, ...]:
    """Return the headings of `cost_rows`; one that ends in ``#`` is of numbers."""
    money = yields.rows[0].currency
    return ("runs", "instance", f"{money}/h#", "throughput#", f"per {money}#", "interval#", f"{money} per million#")


def cost_rows(yields: Yields) -> Iterator[tuple[str, ...]]:
    """Yield the cells of each row."""
    for row in yields.rows:
        yield (
            f"{row.name} ({row.runs})",
            row.instance,
            f"{row.per_hour:g}",
            f"{three_digits(row.per_second)} {row.unit}/s",
            f"{three_digits(row.bought)} {row.unit}",
            _interval(row),
            three_digits(_MILLION / row.bought),
        )


def cost_notes(yields: Yields) -> list[str]:
    """Return the lines below a table: the source of the prices, and runs that are not in it."""
    source = [f"Prices: {yields.source}."] if yields.source else []
    return [*source, *(f"Left out {each}." for each in yields.left_out)]


def cost_json(yields: Yields) -> str:
    """Return a JSON object with ``rows``, ``left_out`` and ``source``."""
    return json.dumps(dataclasses.asdict(yields), indent=2)


def _interval(row: Yield) -> str:
    if row.low is None or row.high is None:
        return "unknown: one run"
    return f"{three_digits(row.low)} to {three_digits(row.high)}"
