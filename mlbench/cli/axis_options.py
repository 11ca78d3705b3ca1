"""Options with the axes of runs, which commands that make every combination share."""

from __future__ import annotations

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


def axis_options(*, backend: str, scenario: str, precision: str, transform: str) -> Callable[..., Any]:
    """Return what gives a command ``--backend``, ``--scenario``, ``--precision`` and ``--transform``, each repeatable.

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
        for option in reversed(options):
            function = option(function)
        return function

    return give
