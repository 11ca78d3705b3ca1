"""Tests whether a kind of isolation works here: a program in it tries what it must not be able to do."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from mlbench.errors import UnavailableError
from mlbench.toolkit.sandbox.outcome import Outcome, SandboxLimits

_LIMITS = SandboxLimits(wall_s=20.0)

_PROGRAM = """
import os, socket, sys
folder, port, pid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def attempt(what, action):
    try:
        action()
    except OSError:
        return
    print(what)

attempt("read a file", lambda: open(folder + "/secret").read())
attempt("write a file", lambda: open(folder + "/secret", "w"))
attempt("remove a file", lambda: os.unlink(folder + "/secret"))
attempt("change a mode", lambda: os.chmod(folder + "/secret", 0o644))
attempt("make a file", lambda: open(folder + "/new", "w"))
attempt("connect", lambda: socket.create_connection(("127.0.0.1", port), 5))
if pid != os.getpid():
    attempt("signal a process", lambda: os.kill(pid, 0))
    attempt("see a process", lambda: open(f"/proc/{pid}/status").read())
open("own", "w").write("x")
print("done")
"""


class ProgramRunner(Protocol):
    """A runner of programs, as `mlbench.toolkit.Sandbox`."""

    def run(self, command: Sequence[str], *, limits: SandboxLimits | None = None) -> Outcome:
        """Run one program in a fresh folder."""


def weakness(sandbox: ProgramRunner) -> str:
    """Return the escapes that a program can make, or the reason why none can run; empty if the sandbox works."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as server:
        Path(folder, "secret").write_text("secret")
        arguments = (folder, str(server.getsockname()[1]), str(os.getpid()))
        try:
            outcome = sandbox.run([sys.executable, "-I", "-S", "-c", _PROGRAM, *arguments], limits=_LIMITS)
        except UnavailableError as error:
            return error.message
    done = outcome.stdout.decode().splitlines()
    if not outcome.succeeded or not done or done[-1] != "done":
        said = outcome.stderr.decode(errors="replace").strip().splitlines()
        return f"a program ended with status {outcome.returncode}: {said[-1] if said else outcome.ending}"
    return f"a program could {', '.join(done[:-1])}" if done[:-1] else ""
