"""The options of measuring until each cell has a verdict, which several commands share."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from mlbench.errors import UsageError
from mlbench.system.folders import results_folder

_UNITS_S = {"s": 1, "min": 60, "m": 60, "h": 3600}
_LONGEST_S = 30 * 24 * 3600
_DEFAULT = "10m"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeForTurns:
    """The time that a command may spend on runs until each cell has a verdict."""

    text: str
    """As the user gave it."""
    seconds: float
    began_s: float = field(default_factory=time.monotonic)
    """On the clock of `time.monotonic`: runs that the command makes before the turns are part of it."""

    @property
    def left_s(self) -> float:
        """Return what is left of it."""
        return max(0.0, self.began_s + self.seconds - time.monotonic())

    def options(self, results: Path) -> list[str]:
        """Return the options of a command line that goes on with runs in a results folder."""
        folder = [] if results == results_folder() else ["--results", str(results)]
        return ["--until-sure", "--budget", self.text, *folder]


class TimeBudget(click.types.StringParamType):
    """A duration with its unit, ``90s``, ``10m``, ``1h``, or a number of minutes, as a `TimeForTurns`."""

    name = "time"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        """Return the budget, which begins now; raises as click's own types do."""
        found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)(s|min|m|h|)", value, re.ASCII)
        if not found:
            self.fail(f"{value!r} is not a time such as 90s, 10m or 1h.", parameter, context)
        seconds = float(found[1]) * _UNITS_S[found[2] or "m"]
        if not 0 < seconds <= _LONGEST_S:
            self.fail(f"{value!r} is not a time above 0, of 30 days at most.", parameter, context)
        return TimeForTurns(text=value, seconds=seconds)


def until_sure_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of measuring until a verdict, as `TimeForTurns` argument ``until``, None without."""

    @click.option(
        "--until-sure",
        "is_until_sure",
        is_flag=True,
        help="Measure both sides interleaved until each cell has a verdict, or the budget is spent.",
    )
    @click.option(
        "--budget",
        type=TimeBudget(),
        metavar="TIME",
        help=f"With --until-sure: time to spend, such as 90s, 10m, 1h.  [default: {_DEFAULT}]",
    )
    @functools.wraps(function)
    def with_budget(is_until_sure: bool, budget: TimeForTurns | None, **others: Any) -> Any:
        if budget and not is_until_sure:
            raise UsageError("--budget is given without --until-sure.", hint="It is the time for that.")
        if is_until_sure and not budget:
            budget = TimeBudget().convert(_DEFAULT, None, None)
        return function(until=budget, **others)

    return with_budget


def margin_words(margins: Mapping[str, float]) -> list[str]:
    """Return the options of a command line for these margins, by kind of number."""
    from mlbench.comparison.kinds import KINDS, SPEED

    differing = {name: share for name, share in margins.items() if share != KINDS[name].margin}
    given = (f"{share:g}" if name == SPEED.name else f"{name}={share:g}" for name, share in differing.items())
    return [word for margin in given for word in ("--margin", margin)]
