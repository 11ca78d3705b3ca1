"""Brings the missing files of a workload's full profile into the data folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from mlbench.errors import DataError
from mlbench.fetching.data_folder import remove_tree, size_of
from mlbench.fetching.digests import algorithm_of, file_digest
from mlbench.fetching.download import Downloader, FetchedFile, how_verified, ignore
from mlbench.fetching.hub import fetch_from_hub
from mlbench.fetching.lists import each_item, load_function, read_list
from mlbench.fetching.local_files import LocalFiles
from mlbench.fetching.lock_file import LockedFile, LockFile
from mlbench.fetching.parts import storage_error
from mlbench.fetching.snapshot_sizes import MANIFEST, snapshot_sizes
from mlbench.fetching.sources import LIST_BYTES, Artifact, Digest, RemoteFile, WorkloadSources
from mlbench.fetching.unpacking import unpack_archive
from mlbench.system.guards import undo_on_error

STREAMS = 4
"""Files that are downloaded at a time."""


class _StoppedError(Exception):
    """Another file of the same artifact failed, or the user interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedArtifact:
    """An artifact with a file that is missing or wrong; its files that are complete stay."""

    artifact: Artifact
    error: DataError


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOutcome:
    """Artifacts missing after a fetch."""

    waiting: Sequence[Artifact]
    """Artifacts that the user must provide first."""
    failed: Sequence[FailedArtifact]


@dataclass(slots=True, kw_only=True)
class Fetch:
    """Fetches one workload's artifacts.

    Its folder, ``<data folder>/<workload>``, is the root of all paths in its ``sources.toml``.
    """

    workload: str
    sources: WorkloadSources
    data: Path
    lock: LockFile
    given: Sequence[Path] = ()
    """Files and folders of the user's."""
    on_bytes: Callable[[int], None] = ignore
    on_step: Callable[[str], None] = ignore
    """Is called with what begins."""
    downloader: Downloader | None = None
    """The downloader, for other time limits."""
    _local: LocalFiles = field(init=False)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Connect what reads with what records."""
        self._local = LocalFiles(tuple(self.given), on_bytes=self._count, on_verified=self._record)
        base = self.downloader or Downloader(folder=self.folder)
        self.downloader = replace(base, folder=self.folder, on_bytes=self._count, on_verified=self._record)

    @property
    def folder(self) -> Path:
        """The workload's part of the data folder."""
        return self.data / self.workload

    def run(self) -> FetchOutcome:
        """Fetch all that is needed and missing, and return what is missing then.

        An artifact that fails keeps no other from being fetched, but those that are made of others.

        Raises:
            StorageError: there is no room.
        """
        waiting: list[Artifact] = []
        failed: list[FailedArtifact] = []
        for artifact in self.sources.needed:
            if failed and (artifact.convert or artifact.items):
                continue
            self._stopping = threading.Event()
            try:
                if not self._complete(artifact):
                    waiting.append(artifact)
            except DataError as error:
                failed.append(FailedArtifact(artifact=artifact, error=error))
        return FetchOutcome(waiting=waiting, failed=failed)

    def _complete(self, artifact: Artifact) -> bool:
        """Fetch an artifact; return whether it is complete now."""
        if self.lock.is_complete(self.workload, artifact) and self._is_intact(artifact):
            return True
        self.on_step(f"{self.workload}: {artifact.id}")
        if artifact.convert:
            self._convert(artifact)
        elif artifact.hub:
            self._bring(RemoteFile(path=artifact.destination, urls=(), digests=artifact.digests), artifact)
        elif not (artifact.unpack and self._is_unpacked(artifact)):
            files = self._files_of(artifact)
            if not self._bring_all(artifact, files):
                return False
            if artifact.unpack:
                self._unpack(artifact, files[0])
        self.lock.add_artifact(self.workload, artifact, self.sources.round)
        return True

    def _is_intact(self, artifact: Artifact) -> bool:
        """Return whether the files of an artifact that is complete have the sizes that were recorded."""
        prefix = f"{self.workload}/{artifact.destination.partition('{')[0]}"
        found = [entry for path, entry in self.lock.files.items() if path.startswith(prefix)]
        files = () if artifact.unpack else artifact.remote_files()
        return all(self._size_of(each.path) == each.size_bytes for each in found) and all(map(self._is_the_one, files))

    def _is_the_one(self, file: RemoteFile) -> bool:
        """Return whether a file's recorded checksum is the published one: the list may have changed."""
        entry = self.lock.files.get(f"{self.workload}/{file.path}")
        known = entry.checksum if entry else None
        return not known or known.algorithm != algorithm_of(file.digests) or not file.digests or known in file.digests

    def _size_of(self, path: str) -> int:
        """Return the bytes of a file or folder, without other recorded files in that folder."""
        others = (other for other in self.lock.files if other.startswith(f"{path}/"))
        return size_of(self.data / path) - sum(max(0, size_of(self.data / other)) for other in others)

    def _files_of(self, artifact: Artifact) -> list[RemoteFile]:
        if artifact.items:
            return list(each_item(artifact, self.folder))
        if artifact.list_url:
            name = f".lists/{artifact.id.replace('/', '-')}.md5"
            listing = RemoteFile(path=name, urls=(artifact.list_url,), most_bytes=LIST_BYTES)
            self._bring(listing, artifact)
            return read_list(self.folder / name, artifact)
        return list(artifact.remote_files())

    def _bring_all(self, artifact: Artifact, files: list[RemoteFile]) -> bool:
        """Bring files to their places, several at a time; return False where a person must bring one."""
        if artifact.snapshot:
            first = [file for file in files if file.path.endswith(f"/{MANIFEST}")]
            self._bring_each(first, artifact)
            sizes = snapshot_sizes(self.folder / artifact.destination)
            start = len(artifact.destination) + 1
            files = [replace(file, size_bytes=sizes.get(file.path[start:])) for file in files]
        return self._bring_each(files, artifact)

    def _bring_each(self, files: list[RemoteFile], artifact: Artifact) -> bool:
        if not artifact.is_manual:
            with ThreadPoolExecutor(STREAMS) as threads:

                def stop() -> None:
                    self._stopping.set()
                    threads.shutdown(cancel_futures=True)

                futures = [threads.submit(self._bring, file, artifact) for file in files]
                with undo_on_error(stop):
                    ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
                    for future in ended:
                        future.result()
            return True
        return all([self._bring(file, artifact) for file in files])

    def _bring(self, file: RemoteFile, artifact: Artifact) -> bool:
        """Bring a file to its place, unless it is there; return False where a person must bring it."""
        pinned = self._pinned(file)
        if self._is_there(file, pinned):
            return True
        found = self._local.find(file, pinned)
        if not found and artifact.hub:
            found = fetch_from_hub(artifact, self.folder)
        if found:
            self._local.copy(found, file, self.folder, pinned)
        elif not artifact.is_manual:
            assert self.downloader
            self.downloader.download(file, pinned)
        return found is not None or not artifact.is_manual

    def _pinned(self, file: RemoteFile) -> Digest | None:
        entry = self.lock.files.get(f"{self.workload}/{file.path}")
        return entry.checksum if entry and not file.digests else None

    def _is_there(self, file: RemoteFile, pinned: Digest | None) -> bool:
        """Return whether a file is in its place and the right one; what is not recorded is verified."""
        path = self.folder / file.path
        if not os.path.lexists(path):
            return False
        entry = self.lock.files.get(f"{self.workload}/{file.path}")
        if entry and size_of(path) == entry.size_bytes and self._is_the_one(file):
            return True
        wanted = file.digests or ((pinned,) if pinned else ())
        try:
            digest = file_digest(path, algorithm_of(wanted))
            verified_by = how_verified(path, file)
            is_right = not wanted or digest in wanted
        except (OSError, DataError):
            is_right = False
        if not is_right:
            raise DataError(f"{path} is not the official file.", hint="Move it away, and run it again.")
        self._record(
            FetchedFile(
                path=file.path, size_bytes=size_of(path), digest=digest, verified_by=verified_by, source="found there"
            )
        )
        return True

    def _unpack(self, artifact: Artifact, archive: RemoteFile) -> None:
        self.on_step(f"{self.workload}: unpacking {artifact.id}")
        packed, destination = self.folder / archive.path, self.folder / artifact.destination
        destination.parent.mkdir(parents=True, exist_ok=True)
        unpack_archive(packed, artifact.unpack, destination, member=artifact.member)
        entry = self.lock.files[f"{self.workload}/{archive.path}"]
        self._record_made(artifact, f"{archive.path}, {entry.algorithm} {entry.digest}")
        packed.unlink(missing_ok=True)

    def _is_unpacked(self, artifact: Artifact) -> bool:
        entry = self.lock.files.get(f"{self.workload}/{artifact.destination}")
        return entry is not None and self._size_of(entry.path) == entry.size_bytes

    def _convert(self, artifact: Artifact) -> None:
        entry = self.lock.files.get(f"{self.workload}/{artifact.destination}")
        destination = self.folder / artifact.destination
        if entry and size_of(destination) == entry.size_bytes:
            return
        self.on_step(f"{self.workload}: making {artifact.id}")
        destination.parent.mkdir(parents=True, exist_ok=True)
        fresh = destination.with_name(f"{destination.name}.making")
        remove_tree(fresh)
        try:
            load_function(artifact.convert)(self.folder, fresh)
            remove_tree(destination)
            os.replace(fresh, destination)
        except OSError as error:
            raise storage_error(destination, error) from None
        finally:
            remove_tree(fresh)
        self._record_made(artifact, artifact.convert)

    def _record(self, file: FetchedFile) -> None:
        self.lock.add_file(
            LockedFile(
                path=f"{self.workload}/{file.path}",
                size_bytes=file.size_bytes,
                algorithm=file.digest.algorithm,
                digest=file.digest.value,
                verified_by=file.verified_by,
                source=file.source,
            )
        )

    def _record_made(self, artifact: Artifact, made_of: str) -> None:
        path = f"{self.workload}/{artifact.destination}"
        self.lock.add_file(
            LockedFile(path=path, size_bytes=self._size_of(path), verified_by="its source", source=made_of)
        )

    def _count(self, count: int) -> None:
        if self._stopping.is_set():
            raise _StoppedError
        self.on_bytes(count)
