"""Installed distributions, by the files that installers write. One with damaged files is named, and hides no others.

`importlib.metadata` answers the same questions, but its import alone takes longer than all that is read here. It is
asked where distributions may be elsewhere than in folders of ``sys.path``: in an archive, or known to another finder.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, NamedTuple, Protocol

from mlbench.errors import describe_error

UNNAMED = "?"
"""Replaces an unreadable name."""
UNKNOWN = "unknown"
"""Replaces an unreadable version."""

_VERSION = re.compile(r"^Version: *(\S+) *$", re.MULTILINE | re.IGNORECASE)
_NAME = re.compile(r"^Name: *(\S+) *$", re.MULTILINE | re.IGNORECASE)
_SEPARATORS = re.compile(r"[-_.]+")
_HEADER_FILES = ("METADATA", "PKG-INFO", "")
"""Where a wheel has them, where an egg has them, and an egg-info that is a file itself."""


class Distribution(Protocol):
    """What is asked of an installed distribution; `importlib.metadata.Distribution` is one."""

    def read_text(self, filename: str, /) -> str | None:
        """Return one of the files that its installer wrote; None where it is not there.

        Raises:
            UnicodeDecodeError: it is not UTF-8.
        """


class EntryPoint(NamedTuple):
    """An object that a distribution offers by name: ``resnet50 = mlbench_resnet50``."""

    name: str
    value: str

    def load(self) -> Any:
        """Import and return it; raises whatever the import raises."""
        module, _, attributes = self.value.partition("[")[0].partition(":")  # extras follow the bracket
        found: Any = import_module(module.strip())
        for attribute in filter(None, attributes.strip().split(".")):
            found = getattr(found, attribute)
        return found


class Installed(NamedTuple):
    """A distribution's entry points in a group, or why they cannot be read."""

    name: str
    distribution: Distribution
    entry_points: tuple[EntryPoint, ...] = ()
    fault: str = ""


def find_installed(group: str) -> Iterator[Installed]:
    """Yield each distribution that has entry points in a group, and each whose entry points cannot be read."""
    seen: set[str] = set()
    for key, distribution in _distributions():
        if key in seen and key != UNNAMED:
            continue  # of several with one name the first is what an import finds
        seen.add(key)
        try:
            found = tuple(dict.fromkeys(_entry_points(distribution.read_text("entry_points.txt") or "", group)))
        except Exception as error:  # not UTF-8, not that form
            fault = f"its entry points cannot be read: {describe_error(error)}"
            yield Installed(name=name_of(distribution), fault=fault, distribution=distribution)
            continue
        if found:
            yield Installed(name=name_of(distribution), entry_points=found, distribution=distribution)


def name_of(distribution: Distribution) -> str:
    """Return a distribution's name; where its metadata are damaged, the name of its folder, or ``?``."""
    if found := _header(_NAME, distribution):
        return found
    folder = getattr(distribution, "_path", "")  # where the standard library keeps it, too; not there: no harm
    return os.path.basename(str(folder)).partition("-")[0] or UNNAMED


def version_of(name: str) -> str | None:
    """Return the version of a distribution, ``unknown`` where its metadata are damaged; None: it is not installed."""
    return versions_of((name,)).get(name)


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Return `version_of` of those distributions that are installed, by name."""
    return {
        name: _header(_VERSION, distribution) or UNKNOWN for name, distribution in find_distributions(names).items()
    }


def find_distributions(names: Iterable[str]) -> dict[str, Distribution]:
    """Return those of some distributions that are installed, by the names given."""
    wanted, found = {name: _normalized(name) for name in names}, dict[str, Distribution]()
    for key, distribution in _distributions():
        found.setdefault(key, distribution)
    return {name: found[key] for name, key in wanted.items() if key in found}


def _header(form: re.Pattern[str], distribution: Distribution) -> str:
    """Return the value of a header; empty where there is none, or none that can be read."""
    try:
        found = form.search(_headers(distribution))
    except Exception:  # not UTF-8
        return ""
    return found[1] if found else ""


def _headers(distribution: Distribution) -> str:
    """Return the headers of a distribution's metadata; without the description, which may hold any line."""
    texts = (distribution.read_text(file) for file in _HEADER_FILES)
    return next(filter(None, texts), "").partition("\n\n")[0]


class _Folder:
    """A distribution whose files are in a folder; an old one may be a single file."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def read_text(self, filename: str, /) -> str | None:
        try:
            with open(os.path.join(self._path, filename) if filename else self._path, encoding="utf-8") as file:
                return file.read()
        except OSError:  # not there, no file, not for us
            return None


def _distributions() -> Iterator[tuple[str, Distribution]]:
    """Yield all distributions in the order in which imports look for them, each with its normalized name."""
    if not _are_all_in_folders():
        from importlib import metadata  # see the module's docstring

        yield from ((_normalized(name_of(each)), each) for each in metadata.distributions())
        return
    for place in _places():
        try:
            changed_ns = os.stat(place or ".").st_mtime_ns
            yield from _distributions_in(place or ".", os.getcwd() if not os.path.isabs(place) else "", changed_ns)
        except OSError:
            continue


@lru_cache(maxsize=100)
def _distributions_in(place: str, below: str, changed_ns: int) -> Sequence[tuple[str, Distribution]]:
    """Return the distributions of a folder, as it was when it last changed.

    Args:
        place: may be relative.
        below: what a relative one is relative to.
        changed_ns: since the epoch.

    Raises:
        OSError: it cannot be listed.
    """
    parts = ((name, *name.rpartition(".")) for name in os.listdir(place))
    return [
        (_normalized(stem.partition("-")[0] or UNNAMED), _Folder(os.path.join(below, place, name)))
        for name, stem, dot, kind in parts
        if dot and kind.lower() in ("dist-info", "egg-info")
    ]


def _are_all_in_folders() -> bool:
    """Return whether Python's own finder alone knows distributions, and finds all that it knows in folders."""
    others = [finder for finder in sys.meta_path if finder is not PathFinder]
    if any(hasattr(finder, "find_distributions") for finder in others):
        return False
    return not any(place.lower().endswith(".egg") or os.path.isfile(place) for place in _places())


def _places() -> Iterator[str]:
    return (place for place in sys.path if isinstance(place, str))  # as the import system does


def _normalized(name: str) -> str:
    """Return what equal names of distributions have in common (PEP 503)."""
    return _SEPARATORS.sub("_", name).lower()


def _entry_points(text: str, group: str) -> Iterator[EntryPoint]:
    """Yield a group's entry points. Raises `ValueError` for a line of another form, in whatever group."""
    section = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#"):
            name, equals, value = map(str.strip, line.partition("="))
            if not equals:
                raise ValueError(f"a line without '=': {line[:80]!r}")
            if section == group:
                yield EntryPoint(name, value)
