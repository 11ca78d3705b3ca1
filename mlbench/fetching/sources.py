"""A workload's ``sources.toml``: official artifacts, their addresses, digests, licences and gates.

Addresses are data: none stands in Python. A file's path is relative to the workload's folder in the data folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal
from urllib.parse import quote, urlsplit

from mlbench.errors import DataError
from mlbench.system.documents import first_problem, read_toml

LOOPBACK = {"127.0.0.1", "::1", "localhost"}
"""Hosts that may be asked without TLS for files whose digest is not known."""

UNKNOWN_BYTES, LIST_BYTES = 1 << 34, 1 << 26
"""The most that is taken of a file of which the list of sources says no size, and of an object store's list."""

_ESTIMATE_SLACK_BYTES = 1 << 24

_HEX = {"md5": 32, "sha256": 64, "git_blob_sha1": 40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A published checksum, in lower-case hex."""

    algorithm: str
    """``md5``, ``sha256``, or ``git_blob_sha1``: what git calls a file of this content."""
    value: str

    def __str__(self) -> str:
        return f"{self.algorithm} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file, where it is available, and how it is recognised."""

    path: str
    """Below the workload's folder."""
    urls: tuple[str, ...]
    """Addresses, in the order in which they are tried."""
    digests: tuple[Digest, ...] = ()
    """Any of them will do; none: nothing is published."""
    size_bytes: int | None = None
    """Exact, where it is known before the first byte."""
    most_bytes: int = UNKNOWN_BYTES
    """No more than so many are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An entry of ``sources.toml``: a file, a list of files, an archive, or what is made of others.

    Exactly one of these says where it comes from: ``urls``, ``files`` or ``list_url`` below ``base``, ``hub``, or
    ``convert``.
    """

    id: str
    role: Literal["model", "dataset", "labels", "calibration", "helper", "stats", "sample", "verify"]
    needed: bool = True
    """Whether the full profile reads it; the others are kept for reference, and are not fetched."""
    gate: Literal["none", "login", "licence", "terms"] = "none"
    ask: str = ""
    """Steps that the user must do at a gate."""
    licence: str = ""
    note: str = ""
    digest_from: str = ""
    """Publisher of the digests."""
    urls: tuple[str, ...] = ()
    """Addresses of its one file; with ``items``, of each: ``{item}`` stands for it, ``{item:05d}`` for a number."""
    base: str = ""
    """Prefix of the paths in ``files``, or in the list."""
    files: tuple[tuple[str, str], ...] = ()
    """Path and published MD5 of each; the MD5 is empty where none is published."""
    list_url: str = ""
    """An object store's list of all files: a line each, MD5 (or nothing) and path. It must agree with ``files``."""
    hub: Mapping[str, str] = field(default_factory=dict)
    """On Hugging Face: ``repo``, ``kind`` (``dataset`` or ``model``), ``revision`` and ``file``."""
    items: str = ""
    """``module:function`` in the workload's package: given its data folder, returns what ``{item}`` stands for."""
    convert: str = ""
    """``module:function`` in the workload's package: given its data folder and a path, writes the result there."""
    destination: str = ""
    """Path of the file, or of the folder that holds the files."""
    unpack: Literal["", "tar", "zip"] = ""
    """The file is an archive, and ``destination`` the folder of its contents, or one ``member`` of it."""
    member: str = ""
    archive: str = ""
    """The archive's name, where its address does not end with it."""
    md5: str = ""
    sha256: str = ""
    git_blob_sha1: str = ""
    md5_any: tuple[str, ...] = ()
    """Checksums of different releases, all of which are right."""
    size_bytes: int = 0
    """Total size of the download, for the plan."""
    size_is_estimate: bool = False
    samples: int = 0
    snapshot: bool = False
    """The folder is a torchsnapshot: its manifest says how long each file is."""

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    @property
    def digests(self) -> tuple[Digest, ...]:
        """Digests of its one file, any of which will do; of two algorithms the stronger."""
        for algorithm in ("sha256", "git_blob_sha1", "md5"):
            if value := getattr(self, algorithm):
                return (Digest(algorithm=algorithm, value=value),)
        return tuple(Digest(algorithm="md5", value=value) for value in self.md5_any)

    @property
    def most_bytes(self) -> int:
        """The most that is taken of any of its files: all of its bytes, twice as many where they are an estimate."""
        if not self.size_bytes:
            return UNKNOWN_BYTES
        return 2 * self.size_bytes + _ESTIMATE_SLACK_BYTES if self.size_is_estimate else self.size_bytes

    @property
    def is_manual(self) -> bool:
        """Whether a person must bring it."""
        return self.gate != "none"

    def remote_files(self) -> Iterator[RemoteFile]:
        """Yield the files that are known without asking anybody."""
        if self.files:
            for path, md5 in self.files:
                yield self.listed_file(path, md5)
        elif self.urls and not self.items:
            name = self.destination
            if self.unpack:
                name = f".archives/{self.archive or PurePosixPath(urlsplit(self.urls[0]).path).name}"
            yield RemoteFile(path=name, urls=self.urls, digests=self.digests, most_bytes=self.most_bytes)

    def listed_file(self, path: str, md5: str) -> RemoteFile:
        """Return a file of a list below ``base``."""
        return RemoteFile(
            path=f"{self.destination}/{path}" if self.destination else path,
            urls=(f"{self.base}/{quote(path)}",) if self.base else (),
            digests=(Digest(algorithm="md5", value=md5),) if md5 else (),
            most_bytes=self.most_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSources:
    """A ``sources.toml``."""

    round: str
    """The round of MLPerf Inference whose files these are."""
    memory_bytes: int = 0
    """Memory of a run of the full profile in fp32, as weights are read in it at any precision."""
    disk_bytes: int = 0
    """Peak disk space of fetching and preparing."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Path in the workload's folder for each of its settings."""
    artifact: tuple[Artifact, ...]

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    @property
    def needed(self) -> tuple[Artifact, ...]:
        """Artifacts of the full profile, in the order of the download."""
        return tuple(each for each in self.artifact if each.needed)


def read_sources(path: Path) -> WorkloadSources:
    """Read and check a ``sources.toml``.

    Raises:
        DataError: it is missing, says something else, names a path outside its folder, names one twice, or would fetch
            a file over an unprotected connection that no digest verifies.
    """
    from pydantic import TypeAdapter, ValidationError

    content = read_toml(path, what="list of sources")
    try:
        sources = TypeAdapter(WorkloadSources).validate_python(content)
    except ValidationError as error:
        raise DataError(f"list of sources {path}: {first_problem(error)}.") from None
    for artifact in sources.artifact:
        if problem := _problem(artifact):
            raise DataError(f"list of sources {path}: {artifact.id}: {problem}.")
    paths = [file.path.casefold() for each in sources.needed for file in each.remote_files()]
    if twice := next((each for each in paths if paths.count(each) > 1), ""):
        raise DataError(f"list of sources {path}: two files would both be {twice}.", hint="Name each once.")
    return sources


def is_inside(path: str) -> bool:
    """Return whether a relative path stays in its folder, and can be a file's."""
    parts = path.split("/")
    return bool(path) and not os.path.isabs(path) and "\0" not in path and not {"", ".", ".."} & {*parts}


def _problem(artifact: Artifact) -> str:
    """Return what is wrong with an entry; empty if nothing is."""
    ways = (artifact.urls, artifact.files or artifact.list_url, artifact.hub, artifact.convert)
    if artifact.needed and sum(map(bool, ways)) != 1:
        return "one of urls, files, list_url, hub and convert must give its source"
    paths = [file.path for file in artifact.remote_files()] + [artifact.destination or "."]
    if outside := next((each for each in paths if each != "." and not is_inside(each)), ""):
        return f"{outside!r} is not a path inside the data folder"
    given = {name: getattr(artifact, name) for name in _HEX}
    md5s = [*artifact.md5_any, *(md5 for _, md5 in artifact.files if md5)]
    for name, value in [*given.items(), *(("md5", each) for each in md5s)]:
        if value and not re.fullmatch(rf"[0-9a-f]{{{_HEX[name]}}}", value):
            return f"{value!r} is no {name}"
    for url in (*artifact.urls, artifact.base, artifact.list_url):
        if artifact.needed and url and (reason := unsafe_address(url, is_verified=bool(artifact.digests))):
            return reason
    return ""


def unsafe_address(url: str, *, is_verified: bool) -> str:
    """Return the reason why an address is not allowed; empty if it is.

    Args:
        url: the address.
        is_verified: whether a published digest will show if what it sends is another file.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
        return f"{url} is not the URL of a file"
    if parts.scheme == "http" and not is_verified and parts.hostname not in LOOPBACK:
        return f"{url} is unprotected, and no digest of the file is published"
    return ""
