"""Departures of the official checker from the rules, from ``official_checker.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckerQuirks:
    """Where the submission checker v4.1 departs from the rules."""

    equal_issue_models: frozenset[str]
    """Folder names of the models of which it reads equal issue."""
    inferred: Mapping[str, tuple[str, ...]]
    """By scenario, those from whose logs it computes a result."""
    names: Mapping[str, str]
    """By model folder, its own name of the model where that is another."""
    also_required: Mapping[str, Mapping[str, tuple[str, ...]]]
    """By model and system type, scenarios that it wants and the rules do not."""


@cache
def checker_quirks() -> CheckerQuirks:
    """Return the content of the file."""
    file = resources.files("mlbench.submission.checking").joinpath("official_checker.toml")
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return CheckerQuirks(
        equal_issue_models=frozenset(table["equal_issue"]["models"]),
        inferred={name: tuple(others) for name, others in table["inferred"].items()},
        names=table["names"],
        also_required={
            model: {system_type: tuple(names) for system_type, names in row.items()}
            for model, row in table["also_required"].items()
        },
    )
