"""Finds installed distributions."""

from __future__ import annotations

from mlbench.system.installed import versions_of


def find_versions(*distributions: str) -> dict[str, str]:
    """Return the versions of installed distributions, by name; nothing is imported."""
    return versions_of(distributions)
