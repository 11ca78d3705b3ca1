"""Possible runs in a results folder, by name; none is read."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from mlbench.errors import UsageError

RECORD_FILE = "record.json"
CURVE_TAG = "curve"
"""The tag of the runs of a curve of throughput against latency."""
HINT = "Choose another folder with --results."


def short_id(run_id: str) -> str:
    """Return the end of a run's id, which `mlbench show` takes."""
    return run_id.rpartition("-")[2]


def names_in(results: Path) -> list[str]:
    """Return possible run folders, by name, without opening each: there may be a hundred thousand."""
    try:
        with os.scandir(results) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".") and _is_folder(entry)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"results folder cannot be read: {results}: {reason}.", hint=HINT) from None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere
        return False


def has_record(folder: Path) -> bool:
    """Return whether a folder is a run's: it has a record, readable or not."""
    try:
        os.lstat(folder / RECORD_FILE)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True
