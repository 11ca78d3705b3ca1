"""Everything a user can act on.

    MlbenchError
    ├── UsageError              the request is wrong: an unknown name, a value of the wrong type (exit 2)
    │   └── DataError           a file the request names is missing, corrupt or of another format (exit 2)
    ├── PluginError             a plugin is missing, broken, or breaks its contract
    │   ├── UnavailableError    a backend cannot run on this machine
    │   ├── GraphError          a backend cannot compile a graph
    │   └── ConformanceError    a backend breaks its contract in a check of `mlbench.conformance`
    ├── InvalidRunError         LoadGen finished, but the run breaks a rule
    └── IncomparableRunsError   two runs differ in a fact that must match

A message says what is wrong, with the value; the hint says what to do. Both are printed in one line, without a
traceback, in one place (`mlbench.cli`). Our own mistakes stay `ValueError`, `TypeError` and `assert`.
"""


class MlbenchError(Exception):
    """What is wrong, and in `hint` what to do about it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class UsageError(MlbenchError):
    """The request cannot be carried out as written."""

    exit_code = 2


class DataError(UsageError):
    """A file that the request needs is missing, corrupt, or of a format this version does not read."""


class PluginError(MlbenchError):
    """A plugin is missing, broken, or breaks its contract."""

    exit_code = 2


class UnavailableError(PluginError):
    """A backend or device cannot run here; the hint holds the install line."""


class GraphError(PluginError):
    """A backend cannot compile a graph; the message names the operator that stopped it."""

    exit_code = 1


class ConformanceError(PluginError):
    """A backend breaks its contract; the message says what was wanted and what came."""

    exit_code = 1


class InvalidRunError(MlbenchError):
    """LoadGen finished, but the run breaks a rule."""


class IncomparableRunsError(MlbenchError):
    """Two runs differ in a fact that must match."""
