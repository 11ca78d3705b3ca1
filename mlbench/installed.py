"""Installed distributions. One with damaged files is named, and does not hide others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from mlbench.errors import describe_error

UNNAMED = "?"
"""Replaces an unreadable name."""
UNKNOWN = "unknown"
"""Replaces an unreadable version."""

_VERSION = re.compile(r"^Version: *(\S+) *$", re.MULTILINE)
_NAME = re.compile(r"^Name: *(\S+) *$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """A distribution's entry points in a group, or why they cannot be read."""

    name: str
    entry_points: tuple[metadata.EntryPoint, ...] = ()
    fault: str = ""
    distribution: metadata.Distribution


def find_installed(group: str) -> Iterator[Installed]:
    """Yield each distribution that has entry points in a group, and each whose entry points cannot be read."""
    try:
        entry_points = metadata.entry_points(group=group)
    except Exception:  # one damaged file, of whatever distribution, fails them all
        yield from _each_by_itself(group)
        return
    by_distribution: dict[int, tuple[metadata.Distribution, dict[metadata.EntryPoint, None]]] = {}
    for entry_point in entry_points:
        if (distribution := entry_point.dist) is not None:
            by_distribution.setdefault(id(distribution), (distribution, {}))[1][entry_point] = None
    for distribution, found in by_distribution.values():
        yield Installed(name=name_of(distribution), entry_points=tuple(found), distribution=distribution)


def _each_by_itself(group: str) -> Iterator[Installed]:
    """Yield what `find_installed` does, where a distribution is damaged; of several with one name the first counts."""
    seen: set[str] = set()
    for distribution in metadata.distributions():
        name = name_of(distribution)
        if name != UNNAMED and name in seen:
            continue
        seen.add(name)
        try:
            found = tuple(dict.fromkeys(distribution.entry_points.select(group=group)))
        except Exception as error:  # not UTF-8, not that form
            fault = f"its entry points cannot be read: {describe_error(error)}"
            yield Installed(name=name, fault=fault, distribution=distribution)
            continue
        if found:
            yield Installed(name=name, entry_points=found, distribution=distribution)


def name_of(distribution: metadata.Distribution) -> str:
    """Return a distribution's name; where its metadata are damaged, the name of its folder, or ``?``."""
    try:
        found = _NAME.search(_headers(distribution))
        name = found[1] if found else distribution.metadata["Name"]
    except Exception:  # not UTF-8, or not there
        name = None
    if isinstance(name, str) and name:
        return name
    folder = getattr(distribution, "_path", None)  # where the standard library keeps it; not there: no harm
    stem, _, _ = str(getattr(folder, "name", "")).partition("-")
    return stem or UNNAMED


def version_of(name: str) -> str | None:
    """Return the version of a distribution, ``unknown`` where its metadata are damaged; None: it is not installed."""
    try:
        found = _VERSION.search(_headers(metadata.distribution(name)))
        return found[1] if found else metadata.version(name) or UNKNOWN
    except metadata.PackageNotFoundError:
        return None
    except Exception:  # not UTF-8, or without a version
        return UNKNOWN


def _headers(distribution: metadata.Distribution) -> str:
    """Return the headers of a distribution's metadata; `Distribution.metadata` parses all, in fifty times the time."""
    headers, _, _ = (distribution.read_text("METADATA") or "").partition("\n\n")
    return headers
