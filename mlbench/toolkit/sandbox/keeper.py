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
from typing import Any, NoReturn

from mlbench.toolkit.sandbox import seccomp
from mlbench.toolkit.sandbox.job import MESSAGE_BYTES, Job
from mlbench.toolkit.sandbox.outcome import Limits, Wall
from mlbench.toolkit.sandbox.removal import remove_folder
from mlbench.toolkit.sandbox.supervision import supervise

_DESCRIPTORS = 4
"""With each message: the control socket, standard input, output and error."""


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
    """Start a supervisor for each message."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the supervisors
    seccomp.contained()  # made once, here
    gc.disable()  # it would touch what a fork then has to copy
    gc.freeze()
    while True:
        message, descriptors, _, _ = socket.recv_fds(line, MESSAGE_BYTES, _DESCRIPTORS)
        if not message:
            return
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)  # no program gets hold of its control socket
        if os.fork() == 0:
            _supervise(message, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _supervise(message: bytes, control: int, *streams: int) -> NoReturn:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with socket.socket(fileno=control) as connection:
            supervise(_job(json.loads(message)), connection, *streams)
    finally:  # whatever happens, this copy of the keeper ends here
        os._exit(0)


def _job(values: dict[str, Any]) -> Job:
    limits = Limits(**values.pop("limits"))
    wall = Wall(values.pop("wall"))
    return Job(
        wall=wall,
        limits=limits,
        command=tuple(values.pop("command")),
        readable=tuple(values.pop("readable")),
        **values,
    )
