"""Files that the user has already, found by their checksum wherever they lie, and copied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from mlbench.errors import DataError
from mlbench.fetching.digests import BLOCK_BYTES, algorithm_of, file_digest
from mlbench.fetching.download import FetchedFile, how_verified, ignore
from mlbench.fetching.parts import PartFile, Version
from mlbench.fetching.sources import Digest, RemoteFile
from mlbench.fetching.structure import check_structure
from mlbench.system.documents import open_regular


@dataclass(slots=True)
class LocalFiles:
    """All files below the paths that the user named."""

    paths: tuple[Path, ...] = ()
    on_bytes: Callable[[int], None] = ignore
    on_verified: Callable[[FetchedFile], None] = ignore
    _files: list[Path] | None = None
    _digests: dict[tuple[Path, str], Digest | None] = field(default_factory=dict)

    def find(self, wanted: RemoteFile, pinned: Digest | None = None) -> Path | None:
        """Return a file with a checksum; where none is known, one of this name that is whole.

        Files of that name are looked at first. Each is read once, however often it is asked for.

        Raises:
            DataError: a path that the user named does not exist.
        """
        name = PurePosixPath(wanted.path).name
        digests = wanted.digests or ((pinned,) if pinned else ())
        files = sorted(self._all(), key=lambda path: (path.name != name, str(path)))
        if not digests:
            return next((path for path in files if path.name == name and _is_whole(path)), None)
        algorithm = algorithm_of(digests)
        return next((path for path in files if self._digest(path, algorithm) in digests), None)

    def copy(self, found: Path, wanted: RemoteFile, folder: Path, pinned: Digest | None = None) -> FetchedFile:
        """Copy a file to its place; what is verified is what was written.

        Raises:
            DataError: it changed meanwhile, or cannot be read.
            StorageError: there is no room.
        """
        digests = wanted.digests or ((pinned,) if pinned else ())
        part = PartFile(folder, wanted.path)
        try:
            with open_regular(found) as file:
                size = os.fstat(file.fileno()).st_size
                part.restart(Version(url=str(found), size_bytes=size))
                with part.appending(algorithm_of(digests), size) as writer:
                    while block := file.read(BLOCK_BYTES):
                        writer.append(block)
                        self.on_bytes(len(block))
        except OSError as error:
            raise DataError(f"{found} cannot be read: {error.strerror}.") from None
        digest = part.digest(algorithm_of(digests))
        if digests and digest not in digests:
            part.drop()
            raise DataError(f"{found} changed while it was copied.", hint="Run it again.")
        try:
            verified_by = how_verified(part.file, wanted)
        except DataError as error:
            part.drop()
            raise DataError(f"{found} is damaged: {error.message}", hint="Give another copy.") from None
        fetched = FetchedFile(
            path=wanted.path, size_bytes=size, digest=digest, verified_by=verified_by, source=str(found)
        )
        self.on_verified(fetched)
        part.rename(folder / wanted.path)
        return fetched

    def _all(self) -> list[Path]:
        if self._files is None:
            self._files = [file for path in self.paths for file in _files_below(path)]
        return self._files

    def _digest(self, path: Path, algorithm: str) -> Digest | None:
        key = (path, algorithm)
        if key not in self._digests:
            try:
                self._digests[key] = file_digest(path, algorithm)
            except OSError:  # not readable, or gone: another may do
                self._digests[key] = None
        return self._digests[key]


def check_paths(paths: Iterable[Path]) -> None:
    """Raise `DataError` for a path of the user's where nothing is."""
    if missing := next((path for path in paths if not path.exists()), None):
        raise DataError(f"{missing} does not exist.", hint="--from names a file, or a folder that is searched.")


def _files_below(path: Path) -> Iterator[Path]:
    check_paths([path])
    if path.is_file():
        yield path
    for folder, _, names in os.walk(path):
        yield from (file for name in names if (file := Path(folder, name)).is_file())


def _is_whole(path: Path) -> bool:
    try:
        check_structure(path, path.name)
    except (OSError, DataError):
        return False
    return True
