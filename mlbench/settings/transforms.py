"""Transforms as typed: ``prune-layers:0.25``, several with a space between them, in the order in which they apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from mlbench.contracts.transform import Transform
from mlbench.discovery import Plugins
from mlbench.errors import UsageError
from mlbench.settings.layers import fill_template

BETWEEN = " "
"""Separates the transforms of a chain; no name and no value has it."""


def choose_transforms(chain: str, plugins: Plugins) -> tuple[Transform, ...]:
    """Return the transforms of a chain, with their options.

    Raises:
        UsageError: a transform is unknown, or a value is not one of its option.
        PluginError: a transform's plugin is broken.
    """
    return tuple(_configure(each, plugins) for each in chain.split())


def spell_chain(chain: str | Iterable[str], plugins: Plugins) -> str:
    """Return a chain with the value of every option, as records have it; raises as `choose_transforms`."""
    given = chain if isinstance(chain, str) else BETWEEN.join(chain)
    return BETWEEN.join(each.text for each in choose_transforms(given, plugins))


def _configure(text: str, plugins: Plugins) -> Transform:
    name, *values = text.split(":")
    transform = plugins.transform(name)
    fields = [field.name for field in dataclasses.fields(transform.options)]
    takes = f"It is {':'.join([name, *map(str.upper, fields)])}, by default {transform.text}."
    if len(values) > len(fields):
        raise UsageError(f"transform {text!r} has {len(values)} values, not {len(fields)}.", hint=takes)
    try:
        given = {f"transform.{field}": value for field, value in zip(fields, values, strict=False)}
        return transform.with_options(fill_template(transform.options, "transform", given))
    except UsageError as error:
        raise UsageError(f"transform {text!r}: {error.message}", hint=takes) from None
