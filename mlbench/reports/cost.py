"""What throughputs cost, as a table and as JSON."""

from __future__ import annotations

import dataclasses
import json

from rich.table import Table

from mlbench.comparison.cost import Prices, Yield, Yields
from mlbench.reports.console import DISCLAIMER
from mlbench.reports.units import three_digits

_MILLION = 1e6


def cost_table(yields: Yields, prices: Prices) -> Table:
    """Return a row per kind of run and instance."""
    source = f" Prices: {prices.source}." if prices.source else ""
    table = Table(title="mlbench cost", caption=DISCLAIMER + source, title_justify="left", caption_justify="left")
    for heading in ("runs", "instance"):
        table.add_column(heading)
    money = prices.currency
    for heading in (f"{money}/h", "throughput", f"per {money}", "interval", f"{money} per million"):
        table.add_column(heading, justify="right")
    for row in yields.rows:
        table.add_row(
            f"{row.name} ({row.runs})",
            row.instance,
            f"{row.per_hour:g}",
            f"{three_digits(row.per_second)} {row.unit}/s",
            f"{three_digits(row.bought)} {row.unit}",
            _interval(row),
            three_digits(_MILLION / row.bought),
        )
    return table


def cost_json(yields: Yields) -> str:
    """Return a JSON object with ``rows`` and ``left_out``."""
    return json.dumps(dataclasses.asdict(yields), indent=2)


def _interval(row: Yield) -> str:
    if row.low is None or row.high is None:
        return "unknown: one run"
    return f"{three_digits(row.low)} to {three_digits(row.high)}"
