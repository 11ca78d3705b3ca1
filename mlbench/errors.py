"""Errors that a user can act on.

    MlbenchError
    ├── UsageError              the request is wrong: an unknown name, a value of the wrong type (exit 2)
    │   ├── DataError           a file the request names is missing, corrupt or of another format (exit 2)
    │   └── StorageError        a result cannot be stored: the disk is full (exit 1)
    ├── PluginError             a plugin is missing, broken, or breaks its contract
    │   ├── UnavailableError    a backend cannot run on this machine
    │   ├── GraphError          a backend cannot compile a graph
    │   └── ConformanceError    a backend breaks its contract in a check of `mlbench.conformance`
    ├── InvalidRunError         LoadGen finished, but the run breaks a rule
    └── IncomparableRunsError   two runs differ in a fact that must match

A message names the fault, with the value; the hint names the fix. Both are printed in one line, without a traceback, in
one place (`mlbench.cli`). They may quote foreign text, so control characters are spelled out. Our own bugs stay
`ValueError`, `TypeError` and `assert`.
"""

_LONGEST_MESSAGE = 4000


def printable(text: str) -> str:
    """Return text as one line that is safe to print: control characters escaped, line breaks as blanks."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else " " if each in "\n\r\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def is_unicode(text: str) -> bool:
    """Return whether text can be written as UTF-8; arguments from other bytes cannot."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def one_line(text: object, *, longest: int = 300) -> str:
    """Return the first line of an external text, in printable characters; empty if there is none.

    Errors and reports of a plugin are untrusted data: ``__str__`` may raise, and text may hold bytes that are not
    UTF-8, escape sequences, or megabytes.
    """
    try:
        line = next((line for line in str(text).splitlines() if line.strip()), "")
    except BaseException as error:  # `__str__` is not our code
        return f"(a {type(text).__name__} whose text cannot be read: {type(error).__name__})"
    return printable(line.strip()[:longest])


def describe_error(error: BaseException) -> str:
    """Return the class of an error, and the first line of its message."""
    said = one_line(error)
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def first_line(error: BaseException, *, longest: int = 300) -> str:
    """Return the first line of an error's message, without the full stop; if it has none, its class."""
    return one_line(error, longest=longest).rstrip(".") or type(error).__name__


class MlbenchError(Exception):
    """An error that a user can act on; `hint` has the fix."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = _message_line(message)
        self.hint = _message_line(hint)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".rstrip()


class UsageError(MlbenchError):
    """The request is impossible as written."""

    exit_code = 2


class DataError(UsageError):
    """A file that the request needs is missing, corrupt, or of a format this version does not read."""


class StorageError(UsageError):
    """A result cannot be stored; the hint names the folder of its logs."""

    exit_code = 1


class PluginError(MlbenchError):
    """A plugin is missing, broken, or breaks its contract."""

    exit_code = 2


class UnavailableError(PluginError):
    """A backend or device cannot run here; the hint holds the install line."""


class GraphError(PluginError):
    """A backend cannot compile a graph; the message names the operator that stopped it."""

    exit_code = 1


class ConformanceError(PluginError):
    """A backend breaks its contract; the message has the requirement and the finding."""

    exit_code = 1


class InvalidRunError(MlbenchError):
    """LoadGen finished, but the run breaks a rule."""


class IncomparableRunsError(MlbenchError):
    """Two runs differ in a fact that must match."""


def _message_line(text: str) -> str:
    return printable(text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]} ...")
