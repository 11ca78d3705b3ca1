"""Required and allowed files of a folder of logs.

Source: submission checker v4.1, ``files_diff``, and the lists of files that are passed to it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

ALWAYS_ALLOWED = frozenset({"mlperf_log_trace.json", "results.json", ".gitkeep"})


def list_files(folder: Path) -> list[str]:
    """Return the names of the files in a folder, without its folders; empty where there is no folder."""
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_file())
    except OSError:
        return []


def describe_difference(folder: Path, required: Collection[str], allowed: Collection[str] = ()) -> str:
    """Return which files a folder lacks and which it must not hold; empty: neither."""
    found = set(list_files(folder))
    missing = sorted({*required} - found)
    extra = sorted(found - {*required, *allowed} - ALWAYS_ALLOWED)
    parts = [f"lacks {', '.join(missing)}"] if missing else []
    parts += [f"must not hold {', '.join(extra)}"] if extra else []
    return "; ".join(parts)
