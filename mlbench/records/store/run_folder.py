"""Run folders: ``results/<run id>/`` is complete, or it does not exist."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from mlbench.errors import DataError, StorageError, UsageError
from mlbench.records.run_record import RunRecord
from mlbench.records.store.run_names import HINT, RECORD_FILE, has_record, names_in
from mlbench.system.documents import open_to_write, read_text
from mlbench.system.locks import hold_lock, open_locked

_CLAIM_FILE = ".claim"
_LOCKED_WITHIN_S = 60.0
"""No process holds the lock of the results folder for long."""
_SHOWN = 3
"""How many candidates an ambiguous name lists."""


def new_run_id(created: datetime, *parts: str, ending: str = "") -> str:
    """Return a name that sorts by time: ``20261121T004501Z-resnet50-pytorch-Offline-mini-fp32-smoke-3f2a``.

    Without an ending it gets four random digits, so that two runs begun in the same second do not meet.
    """
    moment = created.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    plain = [re.sub(r"[^\w.+-]", "_", part) for part in parts]
    return "-".join([moment, *plain, ending or secrets.token_hex(2)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The exclusive right to make a run that several processes may make in one results folder."""

    key: str
    """A key of the run; the same in each process."""
    is_stored: Callable[[], bool]
    """Returns whether one of them has made it by now."""


class TakenError(Exception):
    """Another process is making this run, or has made it."""


def make_results_folder(results: Path) -> None:
    """Make the results folder where it is missing.

    Raises:
        UsageError: it cannot be made.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(results, error) from None


def _unwritable(results: Path, error: OSError) -> UsageError:
    return UsageError(f"results folder cannot be written: {results}: {error.strerror}.", hint=HINT)


class RunFolder:
    """The folder of an unfinished run. Leaving its context without `store` removes it."""

    def __init__(self, results: Path, run_id: str) -> None:
        self.run_id = run_id
        self.path = results / f".{run_id}.partial"
        """Where the run writes; hidden, and not yet a run folder."""
        self._final = results / run_id
        self._lock: int | None = None  # held while this process lives, so that `remove_abandoned` knows

    @classmethod
    def create(cls, results: Path, run_id: str, claim: Claim | None = None) -> Self:
        """Make the folder to write in.

        Raises:
            UsageError: the results folder cannot be written.
            TakenError: another process has this claim.
        """
        folder = cls(results, run_id)
        make_results_folder(results)
        try:
            with hold_lock(results, patience_s=_LOCKED_WITHIN_S):
                # no process may see the folder without its lock and claim
                # in this order: a run is stored by giving the folder that is claimed another name
                if claim and (_is_claimed(results, claim.key) or claim.is_stored()):
                    raise TakenError
                folder.path.mkdir()
                folder._lock = open_locked(folder.path, patience_s=0)
                if claim:
                    (folder.path / _CLAIM_FILE).write_text(claim.key, encoding="utf-8")
        except OSError as error:
            raise _unwritable(results, error) from None
        return folder

    def store(self, record: RunRecord) -> Path:
        """Write the record, give the folder its name, and return its path.

        Raises:
            StorageError: the disk is full, or the folder was taken away; the logs are kept, and the hint says where.
        """
        if record.run_id != self.run_id:
            raise ValueError(f"record of {record.run_id} in the folder of {self.run_id}")
        try:
            with open_to_write(self.path / RECORD_FILE) as file:  # a plugin may have put a pipe there
                file.write(record.text().encode())
                file.flush()
                os.fsync(file.fileno())
            self.path.rename(self._final)
        except OSError as error:
            message = f"run folder cannot be stored: {self._final}: {error.strerror}."
            raise StorageError(message, hint=self._keep_logs()) from None
        with suppress(OSError):
            (self._final / _CLAIM_FILE).unlink(missing_ok=True)
        return self._final

    def _keep_logs(self) -> str:
        """Give the folder a name that no later run cleans up, and return a sentence that says where it is.

        Half a record goes, and makes a little room: a folder with a record is a run.
        """
        kept = self._final.with_name(f".{self.run_id}.unstored")
        try:
            (self.path / RECORD_FILE).unlink(missing_ok=True)
            self.path.rename(kept)
        except OSError as error:
            return f"Its logs are lost too: {error.strerror}. {HINT}"
        return f"Its logs are in {kept}. {HINT}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)


def remove_abandoned(results: Path) -> None:
    """Remove the folders of runs whose process was killed.

    The process of an unfinished run holds its folder's lock, taken under the lock of the results folder; so a folder
    without a lock is abandoned, however new it is.
    """
    try:
        with hold_lock(results, patience_s=_LOCKED_WITHIN_S):
            found = [(folder, _free_lock(folder)) for folder in results.glob(".*.partial")]
    except OSError:  # no results folder yet, or no permission
        return
    for folder, lock in found:
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _is_claimed(results: Path, key: str) -> bool:
    """Return whether a living process makes the run of a claim."""
    for folder in results.glob(".*.partial"):
        with suppress(OSError, DataError):
            if read_text(folder / _CLAIM_FILE, what="claim") != key:
                continue
            lock = _free_lock(folder)
            if lock is None and folder.exists():
                return True
            if lock is not None:
                os.close(lock)
    return False


def _free_lock(folder: Path) -> int | None:
    """Take the lock of a folder; None if a living process holds it, or the folder is gone or not readable."""
    try:
        return open_locked(folder, patience_s=0)
    except OSError:
        return None


def runs_in(results: Path) -> list[Path]:
    """Return the complete run folders, oldest first; none where the folder is missing."""
    return [results / name for name in sorted(names_in(results)) if has_record(results / name)]


def find_run(results: Path, name: str) -> Path:
    """Return a run folder by its path, its id, or the beginning or end of its id.

    Raises:
        UsageError: none or several match.
    """
    given = Path(name)
    if has_record(given):
        return given
    if given.name == RECORD_FILE and has_record(given.parent):
        return given.parent
    names = names_in(results)
    fitting = sorted(each for each in names if each.startswith(name) or each.endswith(f"-{name}"))
    fitting = [each for each in fitting if has_record(results / each)]
    if not fitting:
        newest = next((each for each in sorted(names, reverse=True) if has_record(results / each)), None)
        raise UsageError(
            f"no run {name!r} in {results}.", hint=f"The newest is {newest}." if newest else "It contains no runs."
        )
    if len(fitting) > 1:
        shown = ", ".join(fitting[:_SHOWN]) + (", ..." if len(fitting) > _SHOWN else "")
        raise UsageError(f"{len(fitting)} runs match {name!r}: {shown}.", hint="Give a longer part of the name.")
    return results / fitting[0]
