"""Which distributions are installed."""

from __future__ import annotations

import importlib.metadata


def installed_versions(*distributions: str) -> dict[str, str]:
    """Return the versions of those that are installed, by name; nothing is imported."""
    found: dict[str, str] = {}
    for name in distributions:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
