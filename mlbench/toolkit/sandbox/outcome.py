"""What a program in the sandbox may use, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Wall(StrEnum):
    """What stands between a program and the machine, strongest first."""

    NAMESPACES = "namespaces"
    """A file system, a process table and a network of its own, by the kernel's namespaces."""
    LANDLOCK = "landlock"
    """The machine's own, with most of it forbidden: Landlock for files, seccomp for network and processes."""
    NONE = "none"
    """Nothing but limits and an empty environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one program may use, all its processes together unless said otherwise."""

    wall_s: float = 20.0
    """From its start; then it is killed, with all that it started."""
    cpu_s: float = 60.0
    """Processor time of each process."""
    memory_bytes: int = 4 << 30
    """Private data of each process; and resident memory of all together, looked at 20 times a second."""
    processes: int = 256
    """Processes and threads at one time."""
    file_bytes: int = 256 << 20
    """Size of a file that it writes."""
    folder_bytes: int = 1 << 30
    """Size of all files in its folder, looked at 20 times a second."""
    output_bytes: int = 16 << 20
    """Size of standard output, and of standard error."""


class Ending(StrEnum):
    """Why a program is over."""

    EXIT = "exit"
    """By itself, or by a signal of its own or of the kernel."""
    WALL_TIME = "wall time"
    CPU_TIME = "processor time"
    MEMORY = "memory"
    FOLDER = "folder size"
    OUTPUT = "output size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a program."""

    ending: Ending
    returncode: int
    """As a shell tells it: 128 + n for a program ended by signal n, 127 for one that is not there."""
    stdout: bytes
    stderr: bytes
    wall_ns: int

    @property
    def succeeded(self) -> bool:
        """True when the program left by itself with status 0."""
        return self.ending is Ending.EXIT and self.returncode == 0

    @property
    def timed_out(self) -> bool:
        """True when the program used up its time, of either kind."""
        return self.ending in {Ending.WALL_TIME, Ending.CPU_TIME}
