"""Brings one file: from the first address that gives it, in parts, verified, and only then under its name.

A killed download continues at its last byte. Libraries that were looked at, and what each lacks, are on the page
docs/decisions/0026-fetching.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlbench.errors import DataError
from mlbench.fetching.digests import algorithm_of
from mlbench.fetching.parts import PartFile, Version
from mlbench.fetching.progress import SLOWEST_BYTES_PER_S, STALL_S, ProgressClock
from mlbench.fetching.sources import Digest, RemoteFile
from mlbench.fetching.structure import check_structure
from mlbench.fetching.transfer import ChangedError, FileAnswer, TransferError, request_rest

logger = logging.getLogger(__name__)

ATTEMPTS = 5
"""At one address, without progress between them that is worth the name."""

LONGEST_PAUSE_S = 30.0

CONTINUE = "run it again to continue at the same byte"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    """A file in its place, and why it is believed to be the right one."""

    path: str
    size_bytes: int
    digest: Digest
    verified_by: str
    """``published digest``; ``structure``: its parts fit its length; ``first use``: nothing could be checked."""
    source: str
    """The address, or the path that the user gave."""


def ignore(anything: object) -> None:
    """Do nothing with what a callback is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloader:
    """Downloads into a folder."""

    folder: Path
    on_bytes: Callable[[int], None] = ignore
    """Is called from several threads with the number of bytes that came."""
    on_verified: Callable[[FetchedFile], None] = ignore
    """Is called just before a file gets its name."""
    pause: Callable[[float], None] = time.sleep
    stall_s: float = STALL_S
    now: Callable[[], float] = time.monotonic

    def download(self, file: RemoteFile, pinned: Digest | None = None) -> FetchedFile:
        """Bring a file to its place, from the first address that has the right one.

        Args:
            file: where it is, and how it is recognised.
            pinned: its checksum at its first use, where no other is published.

        Raises:
            DataError: no address gives it; the message has the last one's reason.
            StorageError: it cannot be stored.
        """
        failure = TransferError("it has no address", "give a copy that you have with --from PATH")
        wanted = file.digests or ((pinned,) if pinned else ())
        for url in file.urls:
            part = PartFile(self.folder, file.path)
            try:
                self._receive(url, part, file, wanted)
                return self._finish(url, part, file, wanted)
            except TransferError as error:
                failure = error
                logger.info("%s: %s", url, error.reason)
        others = f", the last of {len(file.urls)} addresses" if len(file.urls) > 1 else ""
        where = f" from {file.urls[-1]}{others}" if file.urls else ""
        raise DataError(
            f"{file.path} was not fetched{where}: {failure.reason}.",
            hint=f"{failure.remedy[:1].upper()}{failure.remedy[1:]}.",
        )

    def _receive(self, url: str, part: PartFile, file: RemoteFile, wanted: tuple[Digest, ...]) -> None:
        """Complete a part, in as many requests as it takes."""
        attempt, most, has_changed = 0, part.size_bytes, False
        while True:
            try:
                self._request(url, part, file, wanted)
                return
            except TransferError as error:
                if isinstance(error, ChangedError):
                    logger.warning("%s: %s; it is fetched again from its first byte", file.path, error.reason)
                    part.drop()
                if has_changed if isinstance(error, ChangedError) else not error.may_pass:
                    raise
                has_changed = has_changed or isinstance(error, ChangedError)
                has_moved = part.size_bytes > most + SLOWEST_BYTES_PER_S * self.stall_s
                attempt = 1 if has_moved else attempt + 1
                if attempt >= ATTEMPTS:
                    raise
                most = max(most, part.size_bytes)
                self.pause(min(2.0**attempt, LONGEST_PAUSE_S))

    def _request(self, url: str, part: PartFile, file: RemoteFile, wanted: tuple[Digest, ...]) -> None:
        """Append to a part what one request gives."""
        start = part.resumable_bytes(url, is_verified=bool(wanted))
        if start and start == part.version.size_bytes:
            return
        is_verified = bool(wanted)
        known = part.version.validator if part.version.url == url else ""
        clock = ProgressClock(self.stall_s, self.now)
        with request_rest(url, start, validator=known, is_verified=is_verified, clock=clock) as answer:
            _check_size(answer, file, part)
            if answer.start == 0:
                part.restart(Version(url=url, validator=answer.validator, size_bytes=answer.size_bytes))
            self._append(answer, file, part, wanted)
        total = answer.size_bytes
        if total is not None and part.size_bytes < total:
            raise TransferError(
                f"the connection ended after {part.size_bytes} of {total} bytes", CONTINUE, may_pass=True
            )
        if total is None and not wanted and not answer.is_chunked:
            raise TransferError("the server does not give its size", "give a copy with --from PATH")

    def _append(self, answer: FileAnswer, file: RemoteFile, part: PartFile, wanted: tuple[Digest, ...]) -> None:
        """Append the body of an answer to a part, up to the most that the file can have."""
        known = [each for each in (answer.size_bytes, file.size_bytes, file.most_bytes) if each is not None]
        left = min(known) - part.size_bytes
        with part.appending(algorithm_of(wanted), answer.size_bytes) as writer:
            for block in answer.blocks():
                left -= len(block)
                if left < 0:
                    break
                writer.append(block)
                self.on_bytes(len(block))
        if left < 0:
            part.drop()
            raise TransferError(f"the server sends more than {min(known)} bytes", "give a right copy with --from PATH")

    def _finish(self, url: str, part: PartFile, file: RemoteFile, wanted: tuple[Digest, ...]) -> FetchedFile:
        """Verify a part that is complete, and give it its name."""
        found = part.digest(algorithm_of(wanted))
        if wanted and found not in wanted:
            part.drop()
            whose = "published" if file.digests else "the one at its first use"
            raise TransferError(
                f"it has {found.algorithm} {found.value[:12]}..., and {wanted[0].value[:12]}... is {whose}",
                "the file is damaged or another version: give a good copy with --from PATH",
            )
        try:
            verified_by = how_verified(part.file, file)
        except DataError as error:
            part.drop()
            reason = f"it is damaged: {error.message.rstrip('.')}"
            raise TransferError(reason, "give a right copy with --from PATH") from None
        size = part.size_bytes
        done = FetchedFile(path=file.path, size_bytes=size, digest=found, verified_by=verified_by, source=url)
        self.on_verified(done)
        part.rename(self.folder / file.path)
        return done


def how_verified(path: Path, file: RemoteFile) -> str:
    """Return what showed that a file, whose checksum is right where one is published, is whole.

    Raises:
        DataError: it is not.
    """
    size = path.stat().st_size
    if file.size_bytes is not None and size != file.size_bytes:
        raise DataError(f"it has {size} bytes, not {file.size_bytes}.")
    if file.digests:
        return "published digest"
    return "structure" if file.size_bytes is not None else check_structure(path, file.path)


def _check_size(answer: FileAnswer, file: RemoteFile, part: PartFile) -> None:
    total = answer.size_bytes
    if answer.start and total != part.version.size_bytes:
        raise ChangedError("the file changed on the server between two parts", "run it again to fetch it")
    remedy = "give a right copy with --from PATH"
    if file.size_bytes is not None and total is not None and total != file.size_bytes:
        raise TransferError(f"the server has {total} bytes, the file {file.size_bytes}", remedy)
    if total is not None and total > file.most_bytes:
        raise TransferError(f"the server has {total} bytes, the file {file.most_bytes} at most", remedy)
