"""Rounds other than v4.1, recognised by their seeds: from ``rounds.toml``, where each names its source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from mlbench.rules.official import SEEDS, RoundSeeds

ROUND = "v4.1"
"""The round whose rules mlbench has."""

_KEYS = tuple(f"effective_{name}_rng_seed" for name in ("qsl", "sample_index", "schedule"))


def recognise_round(detail: Mapping[str, Any]) -> str | None:
    """Return the round that a detail log's seeds belong to; None where they are those of no round known here.

    Each round draws three seeds of its own. One of them is enough: no two rounds share any.
    """
    found = {seed for seed in map(detail.get, _KEYS) if isinstance(seed, int)}
    return next((name for name, seeds in _seeds().items() if not found.isdisjoint(seeds)), None)


@cache
def _seeds() -> Mapping[str, frozenset[int]]:
    table = tomllib.loads(resources.files("mlbench.rules").joinpath("rounds.toml").read_text(encoding="utf-8"))
    own: RoundSeeds = SEEDS.normal
    others = {name: frozenset(row["seeds"]) for name, row in table["rounds"].items()}
    return {ROUND: frozenset((own.qsl, own.sample_index, own.schedule)), **others}
