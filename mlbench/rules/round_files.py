"""The rounds' files as they stand, and what a list needs of them; `official` makes typed rules of all, which is slower.

A round is a TOML file: those in the folder ``rounds`` come with mlbench, and a folder ``rounds`` beside this machine's
settings file may hold more.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from mlbench.contracts.rules import DEFAULT_ROUND, Rules
from mlbench.contracts.workload import Workload
from mlbench.errors import MlbenchError, UsageError
from mlbench.system.folders import own_rounds_folder

_FOLDER = os.path.join(os.path.dirname(__file__), "rounds")
_HINT = "docs/rounds.md describes the form."
_FILE = re.compile(r"v(0|[1-9]\d{0,3})_(0|[1-9]\d{0,3})\.toml")


def known_rounds() -> tuple[str, ...]:
    """Return the names of the rounds, the oldest first: ``v4.1``."""
    return tuple(_files())


class RoundTables(NamedTuple):
    """The tables of a round's file."""

    round: str
    deadline: object
    durations: Mapping[str, Any]
    early_stopping: Mapping[str, Any]
    seeds: Mapping[str, Any]
    scenarios: Mapping[str, Any]
    """By name, in the order in which reports list them."""
    layout: Mapping[str, Any]
    files: Mapping[str, Any]
    checks: Mapping[str, Any]
    compliance: Mapping[str, Any]
    workloads: Mapping[str, Any]
    """By LoadGen's name."""
    sources: Mapping[str, Any] = MappingProxyType({})
    results: Mapping[str, Any] = MappingProxyType({})
    units: Mapping[str, Any] = MappingProxyType({})
    endpoints: Mapping[str, Any] = MappingProxyType({})


def read_tables(name: str) -> RoundTables:
    """Return the tables of a round's file.

    Raises:
        UsageError: no round has this name, and the hint lists those that there are; or its file is no round.
        DataError: its file cannot be read, or is not TOML.
    """
    return _read(file_of(name))


def file_of(name: str) -> str:
    """Return the path of a round's file; raises `UsageError` as `read_tables`."""
    files = _files()
    if name not in files:
        raise UsageError(f"unknown round {name!r}.", hint=f"Rounds are {', '.join(files)}.")
    return files[name]


def is_shipped(file: str) -> bool:
    """Return whether a round's file comes with mlbench."""
    return os.path.dirname(file) == _FOLDER


def own_name(loadgen_name: str) -> str:
    """Return a workload's own name. LoadGen's has ``_`` where a dot would end it: ``llama3_1-8b``."""
    return loadgen_name.replace("_", ".")


def official_scenarios(workload: str, name: str = DEFAULT_ROUND) -> tuple[str, ...]:
    """Return the scenarios that a round defines for a workload on any kind of system, by name and in its order.

    Args:
        workload: LoadGen's name of it.
        name: the round's.

    Raises:
        UsageError: the round has no such workload; the hint says which rounds do.
    """
    tables = read_tables(name)
    if workload not in tables.workloads:
        raise UsageError(
            f"{name} has no rules for workload {own_name(workload)!r}.", hint=_where_to_look(workload, tables)
        )
    return scenarios_of_row(tuple(tables.scenarios), tables.workloads[workload])


def scenarios_of_row(scenarios: Sequence[str], row: Mapping[str, Any], category: str = "") -> tuple[str, ...]:
    """Return which of a round's scenarios a workload's table has, for a category or on any kind of system."""
    categories = (category,) if category else (*row["scenarios"], *row.get("any_of", ()))
    tables = (row["scenarios"], row.get("any_of", {}))
    defined = {scenario for table in tables for each in categories for scenario in table.get(each, ())}
    if not category:
        defined |= {*row.get("scenarios_of_both", ()), *row.get("any_of_both", ())}
    return tuple(scenario for scenario in scenarios if scenario in defined)


def scenarios_of(workload: Workload, name: str = DEFAULT_ROUND) -> tuple[str, ...]:
    """Return the scenarios that a workload's rules define, its own ones or a round's; raises as above."""
    rules = workload.rules
    return rules.scenarios if isinstance(rules, Rules) else official_scenarios(rules, name)


def has_rules(workload: Workload, name: str) -> bool:
    """Return whether a workload has rules in a round: its own, or the round's.

    Raises:
        UsageError: no round has this name.
    """
    rules = workload.rules
    return isinstance(rules, Rules) or rules in read_tables(name).workloads


def usual_round_name(workload: Workload) -> str:
    """Return the round of a workload where none is named: the default one, or the first that has the workload."""
    rules = workload.rules
    if isinstance(rules, Rules) or has_rules(workload, DEFAULT_ROUND):
        return DEFAULT_ROUND
    return next(rounds_with(rules), DEFAULT_ROUND)


def rounds_with(workload: str, *, scenario: str = "", category: str = "") -> Iterator[str]:
    """Yield the rounds that have a workload, by LoadGen's name, in a scenario and a category if these are given."""
    for name, tables in _readable_rounds():
        row = tables.workloads.get(workload)
        if row is None or (category and category not in row["scenarios"]):
            continue
        if not scenario or scenario in scenarios_of_row((scenario,), row, category):
            yield name


def find_loadgen_name(workload: str) -> str:
    """Return LoadGen's name of a workload of any round, given that or its own name; empty: no round has it."""
    names = (each for _, tables in _readable_rounds() for each in tables.workloads)
    return next((each for each in names if workload in (each, own_name(each))), "")


def _readable_rounds() -> Iterator[tuple[str, RoundTables]]:
    """Yield each round with its tables; a broken file of the user's own is an error where that round is asked for."""
    for name in known_rounds():
        try:
            tables = read_tables(name)
        except MlbenchError:
            continue
        yield name, tables


def check_rules_name(workload: str) -> None:
    """Raise `UsageError` where no round has a workload of this name; the default one is looked at first."""
    if workload not in read_tables(DEFAULT_ROUND).workloads and not any(rounds_with(workload)):
        official_scenarios(workload)  # raises


def _where_to_look(workload: str, tables: RoundTables) -> str:
    rounds = ", ".join(rounds_with(workload))
    return f"It is in {rounds}: give --round." if rounds else f"It has: {', '.join(map(own_name, tables.workloads))}."


def _files() -> Mapping[str, str]:
    """Return the file of each round by its name; a file of the user's own does not replace one of mlbench's."""
    found: dict[tuple[int, int], str] = {}
    for folder in (_FOLDER, str(own_rounds_folder())):
        for file in _names_in(folder):
            if match := _FILE.fullmatch(file):
                found.setdefault((int(match[1]), int(match[2])), os.path.join(folder, file))
    return {f"v{major}.{minor}": found[major, minor] for major, minor in sorted(found)}


def _names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # most users have none of their own
        return []


@cache
def _read(file: str) -> RoundTables:
    if is_shipped(file):
        with open(file, "rb") as opened:
            return RoundTables(**tomllib.load(opened))
    from mlbench.system.documents import read_toml

    content = read_toml(Path(file), what="round", hint=_HINT)
    if missing := [name for name in RoundTables._fields if name not in {*content, *RoundTables._field_defaults}]:
        raise UsageError(f"{file} is not a round: it has no {missing[0]!r}.", hint=_HINT)
    with refuse_bad_round(file):
        tables = RoundTables(**content)
        if tables.round != _name_of(file):
            raise ValueError(f"round is {tables.round!r}, and the file's name says {_name_of(file)}")
        for row in tables.workloads.values():
            scenarios_of_row(tuple(tables.scenarios), row)
            [*row["variants"].values()]
    return tables


@contextmanager
def refuse_bad_round(file: str | Path) -> Iterator[None]:
    """Raise `UsageError`, naming the file, for what is missing in a round or of another type."""
    try:
        yield
    except KeyError as error:
        raise UsageError(f"{file} is not a round: it has no {error.args[0]!r}.", hint=_HINT) from None
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{file} is not a round: {error}.", hint=_HINT) from None


def _name_of(file: str) -> str:
    return os.path.basename(file).removesuffix(".toml").replace("_", ".")
