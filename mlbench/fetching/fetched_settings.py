"""Settings of the layer ``data``: paths of fetched files for a full profile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.fetching.lock_file import LOCK_FILE, LockFile
from mlbench.fetching.own_sources import sources_of
from mlbench.fetching.sources import WorkloadSources

if TYPE_CHECKING:
    from mlbench.contracts.workload import Workload


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
