"""Checksums of files, by the names that lists of sources give them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from mlbench.fetching.sources import Digest
from mlbench.system.documents import open_regular

BLOCK_BYTES = 1 << 20


class RunningHash(Protocol):
    """A checksum in the making, as `hashlib` has them."""

    def update(self, data: memoryview, /) -> None:
        """Add bytes."""

    def hexdigest(self) -> str:
        """Return the checksum in hex."""


def start_digest(algorithm: str, size_bytes: int) -> RunningHash:
    """Return the checksum of nothing yet; git's begins with the length of the file."""
    if algorithm == "git_blob_sha1":
        return hashlib.sha1(b"blob %d\0" % size_bytes, usedforsecurity=False)
    return hashlib.new(algorithm, usedforsecurity=False)


def algorithm_of(digests: Collection[Digest]) -> str:
    """Return the algorithm that verifies a file; SHA-256 where no checksum is published."""
    return next((each.algorithm for each in digests), "sha256")


def file_digest(path: Path, algorithm: str) -> Digest:
    """Return a file's checksum; raises `OSError` where it is not a regular file or cannot be read."""
    with open_regular(path) as file:
        running = start_digest(algorithm, path.stat().st_size)
        while block := file.read(BLOCK_BYTES):
            running.update(memoryview(block))
    return Digest(algorithm=algorithm, value=running.hexdigest())
