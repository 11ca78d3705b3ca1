"""Names of the site's files."""

from __future__ import annotations

import hashlib
import re

_LONGEST = 120


def workload_page(workload: str) -> str:
    """Return the path of a workload's page."""
    return f"workloads/{_file_name(workload)}.html"


def run_page(run_id: str) -> str:
    """Return the path of a run's page."""
    return f"runs/{_file_name(run_id)}.html"


def _file_name(name: str) -> str:
    """Return a name that is safe in every file system and URL: itself, or its safe characters with a hash."""
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:_LONGEST]
    if safe == name and name:
        return name
    return f"{safe}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:10]}"
