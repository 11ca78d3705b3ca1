"""Commits of mlbench and its plugins, if recorded at installation, and the plugins' versions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mlbench.system.documents import parse_json
from mlbench.system.installed import Distribution, find_installed, version_of
from mlbench.system.processor import text_of
from mlbench.version import DISTRIBUTION

_GROUP = "mlbench"
"""Group of plugins' entry points; a vendor's backend is the product that is measured."""

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


def find_plugins() -> dict[str, Distribution]:
    """Return mlbench and all distributions that bring plugins, by name; it opens a file of each that is installed."""
    found = {each.name: each.distribution for each in find_installed(_GROUP) if each.entry_points}
    return dict(sorted(found.items()))


def observe_commits(plugins: Mapping[str, Distribution]) -> dict[str, str]:
    """Return the commits of mlbench and of all installed plugins by distribution name, where known.

    An editable installation has the commit that is checked out; changes on top of it are not seen.
    """
    found = ((name, _commit(_direct_url(distribution))) for name, distribution in plugins.items())
    return {name: commit for name, commit in found if commit}


def observe_plugins(plugins: Iterable[str]) -> dict[str, str]:
    """Return the versions of those plugins that others brought, by distribution name."""
    return {name: version for name in plugins if name != DISTRIBUTION and (version := version_of(name))}


def _direct_url(distribution: Distribution) -> str:
    try:
        return distribution.read_text("direct_url.json") or ""
    except (OSError, UnicodeDecodeError):
        return ""


def _commit(direct_url: str) -> str | None:
    """Return the commit that an installer noted down (PEP 610), or that is checked out where the package lies."""
    try:
        origin = parse_json(direct_url)
        noted = origin.get("vcs_info", {}).get("commit_id")
        if noted or "dir_info" not in origin:
            return noted if isinstance(noted, str) else None
        return find_commit(Path(unquote(urlsplit(origin["url"]).path)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # no such file, or not written by an installer


def find_commit(folder: Path) -> str | None:
    """Return the commit that is checked out in the repository that holds a folder; None where there is none."""
    for place in (folder, *folder.parents):
        if os.path.isdir(place / ".git"):
            return _head(place / ".git")
        if linked := re.fullmatch(r"gitdir: (.+)", text_of(place / ".git")):
            return _head(place / linked[1])
    return None


def _head(git: Path) -> str | None:
    head = text_of(git / "HEAD")
    if _COMMIT.fullmatch(head):
        return head
    name = head.removeprefix("ref: ")
    common = git / (text_of(git / "commondir") or ".")
    for place in (git, common):
        if _COMMIT.fullmatch(found := text_of(place / name)):
            return found
    packed = re.search(rf"^([0-9a-f]+) {re.escape(name)}$", text_of(common / "packed-refs"), re.MULTILINE)
    return packed[1] if packed else None
