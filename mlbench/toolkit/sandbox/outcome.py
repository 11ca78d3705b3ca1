"""Limits and outcomes of programs in the sandbox."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Self


class Wall(StrEnum):
    """The kinds of isolation, strongest first."""

    NAMESPACES = "namespaces"
    """A file system, a process table and a network of its own, by the kernel's namespaces."""
    LANDLOCK = "landlock"
    """The machine's own, with most of it forbidden: Landlock for files, seccomp for network and processes."""
    NONE = "none"
    """Nothing but limits and an empty environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """Limits of a program, for all its processes together unless noted.

    For how each wall enforces them see ``docs/sandbox.md``.
    """

    wall_s: float = 20.0
    """Time from its start, after which it is killed with all its children."""
    cpu_s: float = 60.0
    """Processor time of each process."""
    memory_bytes: int = 4 << 30
    """Private data of each process; and the memory of all together, looked at 20 times a second."""
    processes: int = 256
    """Processes and threads at one time."""
    file_bytes: int = 256 << 20
    """Size of a file that it writes."""
    folder_bytes: int = 256 << 20
    """Size of all files in its folder; behind the wall of namespaces that is memory."""
    output_bytes: int = 16 << 20
    """Size of standard output, and of standard error."""


class Ending(StrEnum):
    """Reason of the end of a program."""

    EXIT = "exit"
    """It ended by itself, or by its own signal or the kernel's."""
    WALL_TIME = "wall time"
    CPU_TIME = "processor time"
    MEMORY = "memory"
    FOLDER = "folder size"
    OUTPUT = "output size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A supervisor's report: the end of a program, or the reason why it did not run."""

    ending: Ending = Ending.EXIT
    returncode: int = 127
    wall_ns: int = 0
    error: str = ""

    def to_message(self) -> bytes:
        """Return what `from_message` reads: JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_message(cls, message: object) -> Self:
        """Return the report in a message.

        Raises:
            ValueError: there is none.
        """
        if not isinstance(message, dict) or message.keys() != {"ending", "returncode", "wall_ns", "error"}:
            raise ValueError("no report")
        ending, returncode, wall_ns, error = (message[key] for key in ("ending", "returncode", "wall_ns", "error"))
        if type(returncode) is not int or type(wall_ns) is not int or type(error) is not str:
            raise ValueError("no report")
        return cls(ending=Ending(ending), returncode=returncode, wall_ns=wall_ns, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of a program."""

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
