"""Runs one Python program as MBXP's checker does; this file is the main program of a process in the sandbox.

Reads a secret word and then the program from standard input, and writes the word and the outcome to standard output:
``3f2a passed``. The program finds an empty namespace, streams that swallow what is written and cannot be read, and many
functions gone. What it does to modules that are loaded changes nothing of how the outcome is found and told; only a
program that searches the interpreter for the word could tell another one.

Source: `check_correctness` of mxeval, at the commit that MLPerf Inference v4.1 names.
"""

import builtins
import contextlib
import faulthandler
import importlib
import io
import os
import shutil
import signal
import subprocess
import sys
from typing import NoReturn

LIMIT_S = 20.0
_LONGEST_OUTCOME = 500

_GONE = {
    builtins: ("exit", "quit", "help"),
    os: (
        *("kill", "system", "putenv", "remove", "removedirs", "rmdir", "fchdir", "setuid", "fork", "forkpty", "killpg"),
        *("rename", "renames", "truncate", "replace", "unlink", "fchmod", "fchown", "chmod", "chown", "chroot"),
        *("lchflags", "lchmod", "lchown", "getcwd", "chdir"),
    ),
    shutil: ("rmtree", "move", "chown"),
    subprocess: ("Popen",),
}
_LOADED_BEFORE = ("numpy", "pandas")
"""Modules that the official checker has loaded already, and that could not be loaded without the functions above."""
_NOT_IMPORTABLE = ("ipdb", "joblib", "resource", "psutil", "tkinter")


class _TimeLimit(Exception):
    """An `Exception` like the official one: a program may catch it, and then has another three seconds."""


class _WriteOnly(io.StringIO):
    def read(self, size: int | None = -1, /) -> str:
        raise OSError

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        raise OSError

    def readlines(self, hint: int = -1, /) -> list[str]:  # type: ignore[override]
        raise OSError

    def readable(self) -> bool:
        return False


def _outcome_of(program: str) -> str:
    setitimer, real, run = signal.setitimer, signal.ITIMER_REAL, exec  # the program may replace them
    time_limit, anything = _TimeLimit, BaseException
    sys.stdin = sys.stdout = sys.stderr = _WriteOnly()
    try:
        setitimer(real, LIMIT_S)
        run(program, {})
        setitimer(real, 0)
    except time_limit:
        return "timed out"
    except anything as error:  # SystemExit and KeyboardInterrupt are failures too
        setitimer(real, 0)
        return f"failed: {error}"[:_LONGEST_OUTCOME]
    return "passed"


def _at_the_limit(*_: object) -> NoReturn:
    raise _TimeLimit


def _main() -> None:
    write, leave = os.write, os._exit
    word, _, source = sys.stdin.buffer.read().partition(b"\n")
    program = source.decode()
    verdict = os.dup(1)  # what the program writes past `sys.stdout` goes nowhere
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    for name in _LOADED_BEFORE:
        if name in program:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    signal.signal(signal.SIGALRM, _at_the_limit)
    faulthandler.disable()
    for owner, names in _GONE.items():
        for name in names:
            setattr(owner, name, None)
    sys.modules.update(dict.fromkeys(_NOT_IMPORTABLE))  # type: ignore[arg-type]
    outcome = _outcome_of(program)
    write(verdict, word + b" " + outcome.encode(errors="replace"))
    leave(0)


if __name__ == "__main__":
    _main()
