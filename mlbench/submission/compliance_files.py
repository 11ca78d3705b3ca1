"""The folder of a compliance test, as a submission tree has it.

Source: submission checker v4.1, ``check_compliance_dir``; ``truncate_accuracy_log.py``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from mlbench.errors import StorageError
from mlbench.submission.checking.accuracy_folder import ELLIPSIS
from mlbench.submission.checking.compliance import (
    BASELINE_SCORES,
    TEST_SCORES,
    VERIFY_ACCURACY,
    VERIFY_PERFORMANCE,
)
from mlbench.submission.tree import ACCURACY, ACCURACY_LOG, DETAIL, SUMMARY
from mlbench.system.documents import copy_file, open_to_copy

_KEPT_BYTES = 4096
"""How much of a shortened log is kept at each end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFiles:
    """The texts of a compliance test's files."""

    __test__ = False  # not a test class for pytest

    test: str
    performance: str = ""
    """``verify_performance.txt``; empty: the test is not about speed."""
    accuracy: str = ""
    """``verify_accuracy.txt``; empty: the test is not about replies."""
    scores: tuple[str, str] | None = None
    """Lines of the accuracy script for the accuracy test's replies and for those of the test, where they differ."""


def write_test(folder: Path, files: TestFiles, logs: Path) -> Path:
    """Write the folder of a test into ``folder``, whole or not at all, and return its path.

    Args:
        folder: that shall hold it, under the name of the test; one that is there is replaced.
        files: the verdicts.
        logs: LoadGen's logs of the test, which are copied; the log of replies is shortened.

    Raises:
        StorageError: it cannot be written.
    """
    place, beside = folder / files.test, folder / f".{files.test}.{os.getpid()}.partial"
    try:
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        _write(beside, files, logs)
        shutil.rmtree(place, ignore_errors=True)
        beside.rename(place)
    except OSError as error:
        raise StorageError(f"files of {files.test} cannot be written: {place}: {error.strerror}.", hint="") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return place


def _write(folder: Path, files: TestFiles, logs: Path) -> None:
    if files.performance:
        (folder / VERIFY_PERFORMANCE).write_text(files.performance, encoding="utf-8")
        run = folder / "performance" / "run_1"
        run.mkdir(parents=True)
        for name in (SUMMARY, DETAIL):
            copy_file(logs / name, run / name)
    if files.accuracy:
        (folder / VERIFY_ACCURACY).write_text(files.accuracy, encoding="utf-8")
        (folder / "accuracy").mkdir()
        digest = shorten_log(logs / ACCURACY_LOG, folder / "accuracy" / ACCURACY_LOG)
        (folder / "accuracy" / ACCURACY).write_text(f"hash={digest}\n", encoding="utf-8")
    for name, text in zip((BASELINE_SCORES, TEST_SCORES), files.scores or (), strict=False):
        (folder / "accuracy" / name).write_text(f"{text}\n", encoding="utf-8")


def shorten_log(source: Path, place: Path) -> str:
    """Write a log of replies as a submission has it, its ends alone if it is long; return the hash of the whole."""
    with open_to_copy(source) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size <= _KEPT_BYTES:
            place.write_bytes(file.read())
            return digest
        head = file.read(_KEPT_BYTES)
        file.seek(-_KEPT_BYTES, os.SEEK_END)
        place.write_bytes(head + ELLIPSIS + file.read())
    return digest
