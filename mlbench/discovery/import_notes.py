"""Notes of plugins that are being imported: what ends the process leaves its note, and is not imported again.

An import can end a process before anything is caught: an illegal instruction of a wheel for another processor, a crash,
``os._exit``. The next command names the plugin and works without it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from mlbench.errors import PluginError
from mlbench.system.folders import cache_folder
from mlbench.system.installed import EntryPoint
from mlbench.system.processor import text_of

_FOLDER = "importing"


@contextmanager
def note_import(entry: EntryPoint, distribution: str) -> Iterator[None]:
    """Keep a note in the cache while an entry point is loaded; without a cache nothing is noted.

    Raises:
        PluginError: a process was ended by it, and the plugin's module has not changed since then.
    """
    name = "\0".join((entry.name, entry.value, distribution, _processes()))
    named = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:16]
    folder = cache_folder() / _FOLDER
    with suppress(OSError):
        for note in folder.glob(f"{named}.*"):
            if not _is_running(note.suffix[1:]):
                _check_note(note, entry)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{named}.{os.getpid()}").touch()
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / f"{named}.{os.getpid()}").unlink()


def _processes() -> str:
    """Return which numbers of processes can be looked up here: a cache may be shared with other machines."""
    with suppress(OSError):
        return text_of(Path("/proc/sys/kernel/random/boot_id")) + os.readlink("/proc/self/ns/pid")
    return ""


def _is_running(pid: str) -> bool:
    return pid.isdecimal() and os.path.exists(f"/proc/{pid}")


def _check_note(note: Path, entry: EntryPoint) -> None:
    """Remove a note that is older than the plugin's module; raise `PluginError` for another."""
    changed_s = 0.0
    with suppress(Exception):  # no such module, which the import says better
        spec = find_spec(entry.value.partition(":")[0].partition(".")[0].strip())
        changed_s = os.stat(spec.origin or "").st_mtime if spec else 0.0
    if changed_s < note.stat().st_mtime:
        raise PluginError(f"importing it ended process {note.suffix[1:]}; to try again, delete {note}")
    note.unlink()
