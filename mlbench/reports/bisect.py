"""A bisection as a table of the versions that were tried, its answer in a sentence, and as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from mlbench.comparison.bisection import Bisected, Candidate, Tried
from mlbench.comparison.bisection_order import VersionMark
from mlbench.reports.text_table import WIDTH, TextColumn, build_table, fit_columns, print_line
from mlbench.reports.units import percent, plural, quantity

_SHORT = 12
"""Digits of a commit's hash."""


def short_name(version: Candidate) -> str:
    """Return the beginning of a commit's hash, or the command of an installation."""
    is_commit = len(version.name) in (40, 64) and set(version.name) <= set("0123456789abcdef")
    return version.name[:_SHORT] if is_commit else version.name


def describe_tried(found: Tried) -> str:
    """Return what is known of a version in words: ``bad, x 0.903``."""
    ratio = "" if found.ratio is None or found.mark is VersionMark.SKIPPED else f", x {found.ratio:.3f}"
    return f"{found.mark}{ratio}{f': {found.reason}' if found.reason else ''}"


def answer(found: Bisected) -> str:
    """Return what a bisection found, in a sentence."""
    if not found.has_step:
        return _no_step(found)
    *others, bad = found.suspects
    if others:
        names = ", ".join(short_name(found.versions[place]) for place in found.suspects)
        ends = (short_name(found.versions[place]) for place in (others[0] - 1, bad))
        return f"Cannot tell between {' and '.join(ends)}; the first bad version is one of: {names}."
    version, ratio, before = found.versions[bad], found.tried[bad].ratio or 0.0, found.tried[bad - 1].ratio or 1.0
    way = "worse" if (ratio < 1) is not found.is_amount else "better"
    earlier = f"; {short_name(found.versions[bad - 1])} before it: x {before:.3f}" if bad > 1 else ""
    subject = f" ({version.subject})" if version.subject else ""
    return f"{short_name(version)}{subject} is the first bad version: {found.measure} x {ratio:.3f}, {way}{earlier}."


def _no_step(found: Bisected) -> str:
    end = found.tried[len(found.versions) - 1]
    ratio = f" ({found.measure} x {end.ratio:.3f})" if end.ratio is not None else ""
    if found.detectable is None:
        seen = "How large a loss would have been seen is unknown"
    else:
        seen = f"A loss of {percent(found.detectable)} would have been seen in four of five such comparisons"
    told = "the ends do not differ" if end.mark is VersionMark.GOOD else "the ends cannot be told apart"
    return f"No step: {told}{ratio}. {seen}; more --pairs see less."


def bisect_notes(found: Bisected) -> Iterator[str]:
    """Yield why versions were skipped, in order."""
    for place, each in found.tried.items():
        if each.reason:
            yield f"{short_name(found.versions[place])} was skipped: {each.reason}"


def print_bisected(found: Bisected, width: int | None = None) -> None:
    """Print the versions that were tried, and the answer."""
    from rich.console import Console

    console = Console(width=width or WIDTH)
    tried = found.tried.items()
    columns = [
        TextColumn(heading="version", cells=[short_name(found.versions[place]) for place, _ in tried], is_cropped=True),
        TextColumn(heading="subject", cells=[found.versions[place].subject for place, _ in tried], is_cropped=True),
        TextColumn(heading="runs", cells=[str(each.runs) for _, each in tried], justify="right"),
        TextColumn(heading=found.measure, cells=[_value(found, each) for _, each in tried], justify="right"),
        TextColumn(heading="ratio", cells=["" if each.ratio is None else f"x {each.ratio:.3f}" for _, each in tried]),
        TextColumn(heading="verdict", cells=[str(each.mark) for _, each in tried]),
    ]
    shown = [column for column in columns if column.heading != "subject" or any(column.cells)]
    left = len(found.versions) - len(found.tried)
    console.print(build_table(fit_columns([shown], console.width), console.width))
    for note in bisect_notes(found):
        print_line(console, note)
    if left:
        print_line(console, f"{plural(left, 'version')} did not need to be measured.")
    print_line(console, answer(found), style="bold")


def _value(found: Bisected, each: Tried) -> str:
    return "" if each.value is None else quantity(each.value, found.unit).strip()


def bisection_json(found: Bisected) -> str:
    """Return a JSON object: the versions that were tried, and the suspects, which are one where it was found."""
    tried = [
        dataclasses.asdict(found.versions[place]) | {"place": place} | dataclasses.asdict(each)
        for place, each in found.tried.items()
    ]
    content = {
        "measure": found.measure,
        "unit": found.unit,
        "versions": len(found.versions),
        "tried": tried,
        "suspects": [found.versions[place].name for place in found.suspects],
        "detectable": found.detectable,
        "answer": answer(found),
    }
    return json.dumps(content, indent=2)
