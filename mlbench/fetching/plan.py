"""The plan of a fetch, made without a network."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from mlbench.errors import StorageError
from mlbench.fetching.lock_file import LockFile
from mlbench.fetching.sources import Artifact, WorkloadSources


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedArtifact:
    """An artifact that the full profile needs."""

    id: str
    size_bytes: int
    size_is_estimate: bool
    where: str
    """The first address or repository; of what is made here, how."""
    others: int
    """Further addresses."""
    verified_by: str
    licence: str
    gate: str
    ask: str
    """Steps that the user must do; empty if none."""
    is_there: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPlan:
    """The files of a workload's full profile."""

    workload: str
    round: str
    artifacts: tuple[PlannedArtifact, ...]
    disk_bytes: int
    """Peak disk space while fetching and preparing."""
    memory_bytes: int
    """Memory of a run."""

    @property
    def download_bytes(self) -> int:
        """All of it, with what is there already."""
        return sum(each.size_bytes for each in self.artifacts)

    @property
    def missing_bytes(self) -> int:
        """Bytes still to download."""
        return sum(each.size_bytes for each in self.artifacts if not each.is_there)


def plan_workload(workload: str, sources: WorkloadSources, lock: LockFile) -> WorkloadPlan:
    """Return the plan of fetching a workload."""
    return WorkloadPlan(
        workload=workload,
        round=sources.round,
        artifacts=tuple(_plan_artifact(each, lock.is_complete(workload, each)) for each in sources.needed),
        disk_bytes=sources.disk_bytes,
        memory_bytes=sources.memory_bytes,
    )


def check_room(plans: Sequence[WorkloadPlan], folder: Path, *, is_manual_included: bool) -> None:
    """Raise `StorageError` where the disk has less room than what is missing, with or without what a person brings."""
    artifacts = [each for plan in plans for each in plan.artifacts if not each.is_there]
    missing = sum(each.size_bytes for each in artifacts if is_manual_included or not each.ask)
    free = shutil.disk_usage(folder).free
    if missing > free:
        raise StorageError(
            f"{missing / 1e9:.1f} GB are missing, and {folder} has room for {free / 1e9:.1f} GB.",
            hint="Set MLBENCH_DATA to a larger disk, or name fewer workloads.",
        )


def _plan_artifact(artifact: Artifact, is_there: bool) -> PlannedArtifact:
    addresses = artifact.urls or tuple(filter(None, (artifact.base, artifact.list_url)))[:1]
    where = addresses[0] if addresses else ""
    if artifact.hub:
        where = f"Hugging Face, {artifact.hub['repo']}, {artifact.hub['file']}"
    return PlannedArtifact(
        id=artifact.id,
        size_bytes=artifact.size_bytes,
        size_is_estimate=artifact.size_is_estimate,
        where=where or ("made here of the above" if artifact.convert else "by hand"),
        others=max(0, len(addresses) - 1),
        verified_by=_describe_digests(artifact),
        licence=artifact.licence,
        gate=artifact.gate,
        ask=artifact.ask if artifact.is_manual else "",
        is_there=is_there,
    )


def _describe_digests(artifact: Artifact) -> str:
    if artifact.convert:
        return "its sources"
    if artifact.digests:
        return " or ".join(map(str, artifact.digests))
    published = sum(bool(md5) for _, md5 in artifact.files)
    if artifact.files and published == len(artifact.files) and not artifact.list_url:
        return "md5 of its file" if published == 1 else f"md5 of each of {published} files"
    if artifact.snapshot:
        return f"md5 of {published} files, sizes of the others in its manifest, and pinned at first use"
    if published:
        return f"md5 of {published} of {len(artifact.files)} files, structure of the others, and pinned at first use"
    return "structure, and pinned at first use"


def host_of(where: str) -> str:
    """Return the host of an address; what is none is returned as it is."""
    return urlsplit(where).netloc or where
