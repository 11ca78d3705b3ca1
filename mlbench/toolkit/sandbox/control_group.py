"""A control group for each program, where there are some and this process may make one: limits that the kernel keeps.

Only of version 2, and only where the controller of memory is handed down: to a service or session of systemd's, or to
root outside of a container.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path
from typing import Self

from mlbench.toolkit.sandbox.outcome import SandboxLimits

_FILE_SYSTEM = "cgroup2"
_REMOVAL_PATIENCE_S = 5.0


class ControlGroup:
    """One program's group; or none, where there cannot be one, and then nothing happens."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._entrance = -1 if path is None else os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)

    @classmethod
    def create(cls, limits: SandboxLimits, *, process: Path = Path("/proc/self")) -> Self:
        """Make a group beside this process's own, or below it, with these limits; none where that is refused.

        Args:
            limits: a program's.
            process: this process in the table of processes.
        """
        for parent in _candidates(process):
            path = parent / f"mlbench-{secrets.token_hex(8)}"
            try:
                path.mkdir()
            except OSError:
                continue
            try:
                _write_limits(path, limits)
                return cls(path)
            except OSError:
                with contextlib.suppress(OSError):
                    path.rmdir()
        return cls()

    def enter(self) -> None:
        """Move this process into the group; all that it starts is born there.

        Raises:
            OSError: the kernel refuses.
        """
        if self._path:
            os.write(self._entrance, b"0")  # opened before this process left the machine's groups

    def kill(self) -> None:
        """Kill all that is in the group, at once."""
        if self._path:
            with contextlib.suppress(OSError):
                (self._path / "cgroup.kill").write_text("1")

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel has killed out of memory in here."""
        if not self._path:
            return False
        with contextlib.suppress(OSError, ValueError):
            events = dict(line.split() for line in (self._path / "memory.events").read_text().splitlines())
            return int(events.get("oom_kill", 0)) > 0
        return False

    def close(self) -> None:
        """Remove the group, which is empty but for what is ending."""
        if not self._path:
            return
        os.close(self._entrance)
        deadline = time.monotonic() + _REMOVAL_PATIENCE_S
        while time.monotonic() < deadline:
            try:
                self._path.rmdir()
                break
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.01)
        self._path = None


def _write_limits(group: Path, limits: SandboxLimits) -> None:
    """Write what must be limited, and what may be.

    Raises:
        OSError: memory cannot be limited here.
    """
    (group / "memory.max").write_text(str(limits.memory_bytes + limits.folder_bytes))
    for name, value in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
        with contextlib.suppress(OSError):  # a kernel without swap, or an older one
            (group / name).write_text(value)


def _candidates(process: Path) -> list[Path]:
    """Return the groups below which one with a limit of memory may be made."""
    try:
        own = next(line[3:] for line in (process / "cgroup").read_text().splitlines() if line.startswith("0::"))
        mounts = [line.split() for line in (process / "mounts").read_text().splitlines()]
    except (OSError, StopIteration):
        return []
    top = next((Path(words[1]) for words in mounts if words[2] == _FILE_SYSTEM), None)
    if top is None or ".." in own:
        return []
    here = top / own.lstrip("/")
    places = [here] if here == top else [here.parent, here]
    return [place for place in places if _hands_down_memory(place)]


def _hands_down_memory(group: Path) -> bool:
    with contextlib.suppress(OSError):
        return "memory" in (group / "cgroup.subtree_control").read_text().split() and os.access(group, os.W_OK)
    return False
