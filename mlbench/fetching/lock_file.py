"""The record of a data folder, ``mlbench.lock``: a JSON object a line for each file and each artifact that is complete.

Lines are only ever appended, each in one write; the last line about a path counts. A line about a file is written
before the file gets its name, so that no file bears its name without one.

Formats: 1, the first.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mlbench.fetching.parts import storage_error
from mlbench.fetching.sources import Artifact, Digest
from mlbench.system.documents import foreign, parse_json, read_text

LOCK_FILE = "mlbench.lock"
LOCK_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedFile:
    """A file, or a folder that was unpacked or converted, as it was found to be right."""

    path: str
    """Below the data folder."""
    size_bytes: int
    algorithm: str = ""
    """Algorithm of its checksum; empty for a folder."""
    digest: str = ""
    verified_by: str
    source: str

    @property
    def checksum(self) -> Digest | None:
        """Its checksum; None for a folder."""
        return Digest(algorithm=self.algorithm, value=self.digest) if self.digest else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedArtifact:
    """An artifact that is complete, and under which terms it was fetched."""

    artifact: str
    """Workload and id: ``bert/model/pytorch``."""
    round: str
    licence: str
    gate: str


@dataclass(slots=True)
class LockFile:
    """The lock of a data folder, for reading and writing."""

    folder: Path
    files: dict[str, LockedFile] = field(default_factory=dict)
    artifacts: dict[str, LockedArtifact] = field(default_factory=dict)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def read(cls, folder: Path) -> LockFile:
        """Return the lock of a folder; empty if there is none.

        Raises:
            DataError: it is not such a file. A last line that was cut short is left out.
        """
        found = cls(folder)
        path = folder / LOCK_FILE
        if not os.path.lexists(path):
            return found
        text = read_text(path, what="record of the data folder", limit_bytes=LOCK_BYTES)
        whole, _, _ = text.rpartition("\n")
        for number, line in enumerate(whole.splitlines(), start=1):
            hint = "Move the file away; the files in the folder are then verified again."
            with foreign(f"line {number} of {path}", "is not mlbench's", hint=hint):
                found._take(parse_json(line))
        return found

    def add_file(self, entry: LockedFile) -> None:
        """Record a file; raises `StorageError`."""
        self._append(asdict(entry))
        self.files[entry.path] = entry

    def add_artifact(self, workload: str, artifact: Artifact, release: str) -> None:
        """Record that an artifact is complete; raises `StorageError`."""
        entry = LockedArtifact(
            artifact=f"{workload}/{artifact.id}", round=release, licence=artifact.licence, gate=artifact.gate
        )
        if self.artifacts.get(entry.artifact) != entry:
            self._append(asdict(entry))
            self.artifacts[entry.artifact] = entry

    def is_complete(self, workload: str, artifact: Artifact) -> bool:
        """Return whether an artifact was complete."""
        return f"{workload}/{artifact.id}" in self.artifacts

    def _take(self, line: Mapping[str, object]) -> None:
        if line["format"] != 1:
            raise ValueError(f"its format is {line['format']}")
        values = {name: value for name, value in line.items() if name != "format"}
        if "artifact" in line:
            artifact = LockedArtifact(**values)  # type: ignore[arg-type]
            _check_types(artifact)
            self.artifacts[artifact.artifact] = artifact
        else:
            file = LockedFile(**values)  # type: ignore[arg-type]
            _check_types(file)
            self.files[file.path] = file

    def _append(self, line: Mapping[str, object]) -> None:
        path = self.folder / LOCK_FILE
        content = json.dumps({"format": 1, **line}, ensure_ascii=False).encode() + b"\n"
        try:
            with self._writing, path.open("a+b", buffering=0) as file:
                _end_last_line(file.fileno())
                file.write(content)
        except OSError as error:
            raise storage_error(path, error) from None


def _check_types(entry: LockedFile | LockedArtifact) -> None:
    """Raise `ValueError` where a value is of another type than its field."""
    for name, value in asdict(entry).items():
        if type(value) is not (int if name == "size_bytes" else str):
            raise ValueError(f"its {name} is {value!r}")


def _end_last_line(descriptor: int) -> None:
    """Cut off a last line that has no end: its writer was killed."""
    size = os.fstat(descriptor).st_size
    tail = os.pread(descriptor, min(size, 1 << 16), max(0, size - (1 << 16)))
    if tail and not tail.endswith(b"\n"):
        os.ftruncate(descriptor, size - len(tail) + tail.rfind(b"\n") + 1)
