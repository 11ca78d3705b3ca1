"""The cost of a throughput: samples or tokens per unit of money, with prices from the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mlbench.comparison.comparability import demand_one_condition, key_of
from mlbench.comparison.compare import cell_name
from mlbench.comparison.effect import mean_interval
from mlbench.comparison.measures import why_not_counted
from mlbench.errors import UsageError
from mlbench.records.run_record import RunRecord
from mlbench.records.store.selection import records_named
from mlbench.system.documents import first_problem, read_toml

_SECONDS_PER_HOUR = 3600


class Prices(BaseModel):
    """A price file.

    currency = "USD"
    source = "list prices of 2026-11-20"  # optional

    [per_hour]
    "p5.48xlarge" = 98.32
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    currency: Annotated[str, Field(min_length=1)]
    source: str = ""
    per_hour: dict[str, Annotated[float, Field(gt=0)]] = Field(min_length=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Yield:
    """Samples or tokens per unit of money of repeated runs on one instance."""

    name: str
    instance: str
    per_hour: float
    """The instance's price."""
    currency: str
    unit: str
    """``samples`` or ``tokens``."""
    runs: int
    per_second: float
    """The geometric mean of the runs."""
    bought: float
    """Samples or tokens for one unit of the currency."""
    low: float | None
    high: float | None
    """Bounds of its 95 % interval, from the spread of the runs; None for a single run. The price is taken as exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yields:
    """All rows, and the runs that have none."""

    rows: tuple[Yield, ...]
    left_out: tuple[str, ...]
    """Runs without a usable throughput, with the reason."""
    source: str = ""
    """Source of the prices, from the price file."""


def read_prices(file: Path) -> Prices:
    """Read a price file.

    Raises:
        UsageError: it is missing, is not TOML, or has a wrong entry; the message names the place.
    """
    hint = "Expected currency, source (optional), and a table [per_hour] of prices by instance."
    fields = read_toml(file, what="price file", hint=hint)
    try:
        return Prices.model_validate(fields)
    except ValidationError as error:
        raise UsageError(f"{file}: {first_problem(error)}.", hint=hint) from None


def compute_cost(runs: Sequence[str], price: Path, results: Path) -> Yields:
    """Return the cost efficiency of runs.

    Args:
        runs: each ``INSTANCE=RUNS``, where RUNS is a run, a folder, a baseline or a tag.
        price: the price file.
        results: the results folder.

    Raises:
        UsageError: a run or price cannot be read, or no run has a throughput.
    """
    named, prices = [*map(_split_pair, runs)], read_prices(price)
    records: dict[str, list[RunRecord]] = {}
    for instance, name in named:
        records.setdefault(instance, []).extend(records_named(results, name))
    yields = yields_of(records, prices)
    if not yields.rows:
        raise UsageError(f"no run has a usable throughput: {yields.left_out[0]}.", hint="See `mlbench table`.")
    return yields


def _split_pair(text: str) -> tuple[str, str]:
    instance, equals, name = text.partition("=")
    if not (instance and equals and name):
        raise UsageError(f"{text!r} is not INSTANCE=RUNS.")
    return instance, name


def yields_of(runs: Mapping[str, Sequence[RunRecord]], prices: Prices) -> Yields:
    """Return the cost efficiency of each group of repeated runs.

    Args:
        runs: by the instance they were made on.
        prices: of all these instances.

    Raises:
        UsageError: an instance has no price.
        IncomparableRunsError: runs that should be repeats were made under different conditions.
    """
    rows: list[Yield] = []
    left_out: list[str] = []
    for instance, records in runs.items():
        if instance not in prices.per_hour:
            raise UsageError(f"no price for instance {instance!r}.", hint=f"There are: {', '.join(prices.per_hour)}.")
        kinds: dict[tuple[str, ...], list[RunRecord]] = {}
        for record in records:
            if reason := _no_throughput(record):
                left_out.append(f"{record.run_id}: {reason}")
            else:
                kinds.setdefault(key_of(record, ()), []).append(record)
        rows += [_yield(instance, repeats, prices) for repeats in kinds.values()]
    return Yields(rows=tuple(rows), left_out=tuple(left_out), source=prices.source)


def _no_throughput(record: RunRecord) -> str:
    if reason := why_not_counted(record):
        return reason
    if not record.result or not record.result.higher_is_better or not record.result.value:
        return f"{record.scenario} measures a latency, not a throughput"
    return ""


def _yield(instance: str, repeats: Sequence[RunRecord], prices: Prices) -> Yield:
    demand_one_condition(repeats, instance)
    values = [record.result.value for record in repeats if record.result and record.result.value]
    per_second, low, high = mean_interval(values)
    price = prices.per_hour[instance]
    seconds = _SECONDS_PER_HOUR / price  # per unit of the currency
    return Yield(
        name=cell_name(repeats[0]),
        instance=instance,
        per_hour=price,
        currency=prices.currency,
        unit=repeats[0].result.unit.removesuffix("/s") if repeats[0].result else "",
        runs=len(values),
        per_second=per_second,
        bought=per_second * seconds,
        low=None if low is None else low * seconds,
        high=None if high is None else high * seconds,
    )
