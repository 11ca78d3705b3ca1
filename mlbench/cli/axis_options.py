"""Options with the axes of runs, which commands that make every combination share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from mlbench.cli.completions import offer_backends, offer_scenarios
from mlbench.cli.model_options import transform_option
from mlbench.cli.options import PrecisionName
from mlbench.contracts.scenario import MOST_REPEATS

repeats_option = click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, MOST_REPEATS),
    default=1,
    show_default=True,
    help="Runs of each combination, interleaved; five or more let `mlbench compare` see small changes.",
)


def _also_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--also``, each value of which sets the workload's option of its name."""

    @click.option(
        "--also",
        multiple=True,
        type=click.Choice(["perplexity"]),
        help="Measure more: perplexity of right answers, of the language workloads.",
    )
    @functools.wraps(function)
    def with_also(also: tuple[str, ...], overrides: dict[str, str], **others: Any) -> Any:
        return function(overrides={**{f"workload.{name}": "true" for name in also}, **overrides}, **others)

    return with_also


def axis_options(*, backend: str, scenario: str, precision: str, transform: str) -> Callable[..., Any]:
    """Return what gives a command ``--backend``, ``--scenario``, ``--precision``, ``--transform`` and ``--also``.

    Each is repeatable.

    Args:
        backend: the default, in words.
        scenario: likewise.
        precision: likewise.
        transform: how several transforms apply.
    """
    options = (
        click.option(
            "--backend",
            "backends",
            multiple=True,
            metavar="BACKEND",
            shell_complete=offer_backends,
            help=f"Backend, from `mlbench list`; repeatable.  [default: {backend}]",
        ),
        click.option(
            "--scenario",
            "scenarios",
            multiple=True,
            metavar="SCENARIO",
            shell_complete=offer_scenarios,
            help=f"Scenario, from `mlbench list`; repeatable.  [default: {scenario}]",
        ),
        click.option(
            "--precision",
            "precisions",
            multiple=True,
            type=PrecisionName(),
            help=f"Precision to compute in; repeatable.  [default: {precision}]",
        ),
        transform_option(transform),
    )

    def give(function: Callable[..., Any]) -> Callable[..., Any]:
        function = _also_option(function)
        for option in reversed(options):
            function = option(function)
        return function

    return give
