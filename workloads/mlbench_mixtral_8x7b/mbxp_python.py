"""Runs one Python program as MBXP's checker does; this file is the main program of a process in the sandbox.

Reads the program from standard input, and writes one line of JSON to standard output: ``{"outcome": "passed"}``. The
program finds an empty namespace, streams that swallow what is written and cannot be read, and many functions gone.

Source: `check_correctness` of mxeval, at the commit that MLPerf Inference v4.1 names.
"""

import builtins
import contextlib
import faulthandler
import importlib
import io
import json
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
    swallowing = _WriteOnly()
    sys.stdin = swallowing
    try:
        with contextlib.redirect_stdout(swallowing), contextlib.redirect_stderr(swallowing):
            signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
            exec(program, {})
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TimeLimit:
        return "timed out"
    except BaseException as error:  # SystemExit and KeyboardInterrupt are failures too
        signal.setitimer(signal.ITIMER_REAL, 0)
        return f"failed: {error}"[:_LONGEST_OUTCOME]
    return "passed"


def _at_the_limit(*_: object) -> NoReturn:
    raise _TimeLimit


def _main() -> None:
    program = sys.stdin.buffer.read().decode()
    verdict = os.dup(1)  # what the program writes past `sys.stdout` goes nowhere
    nowhere = os.open(os.devnull, os.O_WRONLY)
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
    os.write(verdict, json.dumps({"outcome": outcome}).encode())
    os._exit(0)


if __name__ == "__main__":
    _main()
