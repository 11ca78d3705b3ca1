"""Settings of the layer ``data``: paths of fetched files for a full profile."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.errors import DataError
from mlbench.fetching.lock_file import LOCK_FILE, LockFile
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


def fetched_settings(workload: Workload, data: Path) -> Mapping[str, str]:
    """Return paths by setting, ``workload.weights`` for one, of what is complete in the data folder.

    Raises:
        DataError: the workload's list of sources or the record of the data folder is malformed.
    """
    if not workload.sources or not (data / LOCK_FILE).exists():
        return {}
    sources, lock, folder = sources_of(workload, data), LockFile.read(data), data / workload.name
    return {
        f"workload.{name}": str(folder / path)
        for name, path in sources.settings.items()
        if _is_complete(workload.name, path, sources, lock) and (folder / path).exists()
    }


def _is_complete(workload: str, path: str, sources: WorkloadSources, lock: LockFile) -> bool:
    """Return whether all artifacts in a folder, or those that hold a file, are complete."""
    place = Path(path)
    parts = [
        each
        for each in sources.needed
        if place in (own := Path(each.destination), *own.parents) or Path(each.destination) in place.parents
    ]
    return bool(parts) and all(lock.is_complete(workload, each) for each in parts)
