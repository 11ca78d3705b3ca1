"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from mlbench.contracts.workload import Profile, Weights
from mlbench.folders import results_folder


def _parsed(context: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    overrides = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE.")
        overrides[key.strip()] = value.strip()
    return overrides


profile_option = click.option(
    "--profile",
    type=click.Choice([str(profile) for profile in Profile]),
    default=str(Profile.MINI),
    show_default=True,
    help="A small trained model with small data, most of it generated, or the official ones.",
)
tier_option = click.option(
    "--tier",
    type=click.Choice(["smoke", "dev", "valid"]),
    default="smoke",
    show_default=True,
    help="Seconds, a minute, or the official durations and counts.",
)
weights_option = click.option(
    "--weights",
    type=click.Choice([str(weights) for weights in Weights]),
    default=str(Weights.TRAINED),
    show_default=True,
    help="Random ones are for speed only.",
)
overrides_option = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", callback=_parsed, help="See `mlbench settings`."
)
results_option = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=results_folder,
    help="Folder of run folders.  [default: results]",
)
across_option = click.option(
    "--across", multiple=True, metavar="FACT", help="Compare although this fact differs: hardware, backend, ..."
)
margin_option = click.option(
    "--margin",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.05,
    show_default=True,
    help="A change of a smaller share is called none.",
)
accuracy_margin_option = click.option(
    "--accuracy-margin",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.005,
    show_default=True,
    help="A score that is worse by a smaller share is called as good.",
)
