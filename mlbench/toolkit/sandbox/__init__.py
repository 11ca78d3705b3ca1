"""Runs code that a model wrote, kept apart from the machine.

`Sandbox` asks a keeper, a small process, for each program. The keeper forks a supervisor, and that the process which
goes behind a wall (`namespaces` or `landlock`) and becomes the program. The supervisor watches the limits that the
kernel does not, and ends all that is left at the end. `seccomp` says which system calls programs do without.
"""

from mlbench.toolkit.sandbox.outcome import Ending, Outcome, SandboxLimits, Wall
from mlbench.toolkit.sandbox.sandbox import Folder, Sandbox

__all__ = ["Ending", "Folder", "Outcome", "Sandbox", "SandboxLimits", "Wall"]
