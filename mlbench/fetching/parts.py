"""A file while it comes in: a part file, a note of the version that it belongs to, and a checksum."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from mlbench.errors import DataError, StorageError
from mlbench.fetching.digests import RunningHash, file_digest, start_digest
from mlbench.fetching.sources import Digest
from mlbench.system.documents import is_file, read_json_object

PART, NOTE = ".part", ".part.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Version of the file that a part belongs to; empty: none yet."""

    url: str = ""
    validator: str = ""
    size_bytes: int | None = None


class PartFile:
    """The received part of a file, under a temporary name."""

    def __init__(self, folder: Path, path: str) -> None:
        """Find what is left of an earlier download.

        Raises:
            StorageError: the folder of the file cannot be made.
        """
        self.file = folder / f"{path}{PART}"
        self._note = folder / f"{path}{NOTE}"
        self._hash: RunningHash | None = None
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(self.file.parent, error) from None
        self.version = self._noted_version()

    @property
    def size_bytes(self) -> int:
        """Bytes received."""
        try:
            return self.file.stat().st_size
        except OSError:
            return 0

    def resumable_bytes(self, url: str, *, is_verified: bool) -> int:
        """Return the bytes that may stay: all, if a digest or the same server's version will verify them."""
        is_known = self.version.url == url and self.version.validator
        return self.size_bytes if self.version.url and (is_verified or is_known) else 0

    def restart(self, version: Version) -> None:
        """Begin an empty part of a version; raises `StorageError`."""
        self.drop()
        try:
            self._note.write_text(json.dumps(asdict(version)), encoding="utf-8")
            self.file.touch()
        except OSError as error:
            raise storage_error(self.file, error) from None
        self.version = version

    @contextmanager
    def appending(self, algorithm: str, final_bytes: int | None) -> Iterator[PartWriter]:
        """Open the part at its end; the checksum of one that begins here is computed meanwhile, if its length is known.

        Raises:
            StorageError: it cannot be written.
        """
        if not self.size_bytes and (final_bytes is not None or algorithm != "git_blob_sha1"):
            self._hash = start_digest(algorithm, final_bytes or 0)
        try:
            opened = self.file.open("ab", buffering=0)
        except OSError as error:
            raise storage_error(self.file, error) from None
        with opened as file:
            yield PartWriter(self.file, file, self._hash)

    def digest(self, algorithm: str) -> Digest:
        """Return the checksum of the whole part."""
        if not self._hash:
            return file_digest(self.file, algorithm)
        return Digest(algorithm=algorithm, value=self._hash.hexdigest())

    def drop(self) -> None:
        """Forget what has come."""
        self._hash = None
        self.file.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)
        self.version = Version()

    def rename(self, final: Path) -> None:
        """Give a verified part its name; raises `StorageError`."""
        try:
            with self.file.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(self.file, final)
        except OSError as error:
            raise storage_error(final, error) from None
        self._note.unlink(missing_ok=True)

    def _noted_version(self) -> Version:
        try:
            if is_file(self._note):
                noted = read_json_object(self._note, what="note of a part")
                url, validator, size = noted.get("url"), noted.get("validator"), noted.get("size_bytes")
                if isinstance(url, str) and isinstance(validator, str) and isinstance(size, int | None):
                    return Version(url=url, validator=validator, size_bytes=size)
        except DataError:
            pass  # cut short when the machine stopped: the part begins anew
        return Version()


class PartWriter:
    """Appends to a part."""

    def __init__(self, path: Path, file: IO[bytes], running: RunningHash | None) -> None:
        self._path = path
        self._file = file
        self._hash = running

    def append(self, block: bytes) -> None:
        """Write all of a block; raises `StorageError`."""
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise storage_error(self._path, error) from None
        if self._hash:
            self._hash.update(memoryview(block))


def storage_error(path: Path, error: OSError) -> StorageError:
    """Return the error for a file that cannot be stored."""
    return StorageError(
        f"{path} cannot be written: {error.strerror}.",
        hint="Make room or set MLBENCH_DATA to another disk; run it again to continue where it stopped.",
    )
