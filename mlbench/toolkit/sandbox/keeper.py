"""The process that starts programs for a `Sandbox`: small and with one thread, so that a fork of it is cheap and safe.

It reads one message per program from a socket. When that is closed, it waits for the last program's end and removes
all folders.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from mlbench.toolkit.sandbox import memory_folder, seccomp
from mlbench.toolkit.sandbox.job import MESSAGE_BYTES, Action, SandboxJob
from mlbench.toolkit.sandbox.outcome import SandboxLimits, Wall
from mlbench.toolkit.sandbox.removal import remove_folder
from mlbench.toolkit.sandbox.supervision import supervise
from mlbench.toolkit.sandbox.tree import open_folder

_DESCRIPTORS = 4
"""With each message: the control socket; and for a program, standard input, output and error."""


def keep(descriptor: int, folder: str) -> None:
    """Serve until the other side hangs up, and clean up.

    Args:
        descriptor: the socket.
        folder: holds all folders of programs.
    """
    os.set_inheritable(descriptor, False)
    with socket.socket(fileno=descriptor) as line:
        _serve(line)
    with contextlib.suppress(ChildProcessError):  # none is left
        os.wait()
    remove_folder(folder)  # the other side may have been killed


def _serve(line: socket.socket) -> None:
    """Answer each message; a supervisor does it where a program is to be run."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the supervisors
    seccomp.filter_for_namespaces()  # made once, here
    gc.disable()  # it would touch what a fork then has to copy
    gc.freeze()
    has_own_mounts = False
    while True:
        data, descriptors, _, _ = socket.recv_fds(line, MESSAGE_BYTES, _DESCRIPTORS)
        if not data:
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # no program gets hold of its control socket
        control, *streams = descriptors
        message = json.loads(data)
        match Action(message.pop("action")):
            case Action.RUN:
                if os.fork() == 0:
                    _supervise(message, control, *streams)
            case Action.MAKE_FOLDER:
                if not has_own_mounts:
                    has_own_mounts = _attempt(control, memory_folder.leave_mounts)
                if has_own_mounts:
                    _make_folder(control, message["folder"])
        for descriptor in descriptors:
            os.close(descriptor)


def _attempt(control: int, action: Callable[[], None]) -> bool:
    """Do it, or say why not, and return whether it is done."""
    try:
        action()
    except OSError as error:
        _tell(control, {"error": str(error.strerror or error)})
        return False
    return True


def _make_folder(control: int, folder: str) -> None:
    """Make a folder in memory and send its descriptor: only the keeper can see it."""
    if not _attempt(control, lambda: memory_folder.make(folder)):
        return
    descriptor = open_folder(folder)
    _tell(control, {"error": ""}, descriptor)
    os.close(descriptor)


def _tell(control: int, message: dict[str, str], *descriptors: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(control)) as connection:  # the reader may be gone
        socket.send_fds(connection, [json.dumps(message).encode()], descriptors)


def _supervise(message: dict[str, Any], control: int, *streams: int) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with socket.socket(fileno=control) as connection:
            supervise(_job(message), connection, *streams)
    finally:  # whatever happens, this copy of the keeper ends here
        os._exit(0)


def _job(values: dict[str, Any]) -> SandboxJob:
    limits = SandboxLimits(**values.pop("limits"))
    wall = Wall(values.pop("wall"))
    return SandboxJob(
        wall=wall,
        limits=limits,
        command=tuple(values.pop("command")),
        readable=tuple(values.pop("readable")),
        **values,
    )
