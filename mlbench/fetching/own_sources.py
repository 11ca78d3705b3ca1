"""The sources of official files on this machine: a workload's list, or the data folder's own instead.

A file ``<workload>.sources.toml`` in the data folder is a mirror of one's own, or a smaller set. `mlbench fetch` writes
below the workload's folder and nowhere else, so that nothing fetched becomes such a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import DataError
from mlbench.fetching.sources import WorkloadSources, is_inside, read_sources

if TYPE_CHECKING:
    from mlbench.contracts.workload import Workload


def own_sources(workload: str, data: Path) -> Path:
    """Return the path at which a data folder may have its own list of a workload's sources."""
    return data / f"{workload}.sources.toml"


def sources_of(workload: Workload, data: Path) -> WorkloadSources:
    """Return the sources of a workload's files.

    Raises:
        DataError: a list is malformed, or the data folder's own names a function that the workload's list does not: it
            says where files come from, and not what is run.
    """
    assert workload.sources
    official = read_sources(workload.sources)
    path = own_sources(workload.name, data)
    if not os.path.lexists(path):
        return official
    own, known = read_sources(path), {name for each in official.artifact for name in (each.items, each.convert)}
    if other := next((name for each in own.artifact for name in (each.items, each.convert) if name not in known), ""):
        raise DataError(f"list of sources {path}: {other} is not a function that {workload.name} fetches with.")
    if outside := next((each for each in own.settings.values() if not is_inside(each)), ""):
        raise DataError(f"list of sources {path}: {outside!r} is not a path inside the data folder.")
    return own
