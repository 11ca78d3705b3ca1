"""A process that has imported what runs need, and forks for each: ``python -P -m ... <socket> <module>``.

It imports and forks; it computes nothing and has no threads of its own, so that a fork is as good as a new interpreter.
It ends when the other side closes the socket.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Sequence
from typing import NoReturn

from mlbench.execution.preload import preload
from mlbench.execution.processes import child
from mlbench.execution.processes.fork_server import DESCRIPTORS, FORKED, HEADER, RELEASE, SERVE, ForkRequest
from mlbench.execution.processes.supervisor import adopt_orphans, collect_ended, end_descendants, supervise

_END_WITHIN_S = 10.0
ASKS_NO_DEVICE = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""Has torch ask whether there is a GPU without opening it. Of the server alone: a run has its own environment."""
DEVICES = ("/dev/nvidia", "/dev/kfd", "/dev/dri", "/dev/accel", "/dev/shm")
"""Files of accelerators, and memory that is shared with other processes."""
_FLAGS = socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC


def main(arguments: Sequence[str]) -> NoReturn:
    """Import, and fork as requested."""
    number, module = arguments
    os.environ.update(ASKS_NO_DEVICE)
    _serve(int(number), module)


def _serve(number: int, module: str) -> NoReturn:
    """Import one more module, and fork as is requested on a socket."""
    line = socket.socket(fileno=number)
    adopt_orphans()
    preload([module])
    is_safe = threading.active_count() == 1 and not _has_opened_a_device()
    gc.collect()
    gc.freeze()  # the collector writes into all that it looks at, which would make each fork copy it
    started, servers = set[int](), set[int]()
    while True:
        header, descriptors, _, _ = socket.recv_fds(line, HEADER.size, DESCRIPTORS, _FLAGS)
        if len(header) < HEADER.size:
            os._exit(0)  # nothing was started that would be there to be cleaned up
        kind, value = HEADER.unpack(header)
        if kind == RELEASE:
            _release(value, started, servers)
            continue
        body = json.loads(line.recv(value, socket.MSG_WAITALL))
        if not is_safe:
            line.sendall(FORKED.pack(0, 0))
            os._exit(0)
        pid, error = _fork()
        if not pid and not error:
            line.close()
            if kind == SERVE:
                os.setsid()
                _serve(descriptors[0], body["module"])
            _run(ForkRequest(**body), descriptors)
        (servers if kind == SERVE else started).update({pid} - {0})
        for descriptor in descriptors:
            os.close(descriptor)
        line.sendall(FORKED.pack(pid, error))


def _fork() -> tuple[int, int]:
    """Fork; return the new process, 0 in itself, and the number of the error that kept it from being."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Python 3.12 on, of the threads of a BLAS, which has its own cure
        try:
            return os.fork(), 0
        except OSError as failed:
            return 0, failed.errno or 1


def _has_opened_a_device() -> bool:
    """Return whether an import opened an accelerator, whose driver does not survive a fork."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing is closed
            if os.readlink(f"/proc/self/fd/{number}").startswith(DEVICES):
                return True
    return False


def _run(request: ForkRequest, descriptors: Sequence[int]) -> NoReturn:
    """Be the supervisor, which ends here, and the run's process below it."""
    os.setsid()
    stdin, log, control, messages = descriptors
    for source, target in ((stdin, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(stdin)
    os.close(log)
    supervise(control, messages)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # as in every interpreter
        signal.signal(ignored, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    sys.argv[1:] = [request.function, str(messages)]
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    child.leave(child.main(request.function, messages))


def _release(pid: int, started: set[int], servers: set[int]) -> None:
    """Reap a process that was forked here; end what is below this one, and neither supervisor nor server: left behind.

    Args:
        pid: the process, which has ended.
        started: the supervisors.
        servers: those with more modules.
    """
    started.discard(pid)
    servers.discard(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    if not started and collect_ended(lambda pid, status: None):
        end_descendants(_END_WITHIN_S, spared=servers)


if __name__ == "__main__":
    main(sys.argv[1:])
