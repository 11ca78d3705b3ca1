"""Engines that end the process, hold it, or leave something in it."""

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading

from mlbench import Backend, Probe
from mlbench_broken.right import NEVER, Uncomputed, Uttering, Zeros, refuse_generation, zeros

LET_GO = threading.Event()
LEFT = []
FORGED = b'{"outcome": {}}\n'


class Ending(Backend):
    """Answers zeros, and in the one check with a batch of 8 ends the process, or never returns."""

    title = "ends the process"

    def __init__(self, name, end):
        self.name = name
        self._end = end

    def probe(self):
        return Probe(is_available=True)

    def engine(self, model, plan):
        refuse_generation(model)
        return Uttering(lambda samples, reply: self._end()) if plan.batch == 8 else Zeros()


class HoldingFlush(Zeros):
    def flush(self):
        NEVER.wait()


class HoldingStart(Zeros):
    def __enter__(self):
        NEVER.wait()


class HoldingWarmUp(Zeros):
    def warm_up(self, samples):
        NEVER.wait()


class HoldingExit(Zeros):
    def __exit__(self, *error):
        NEVER.wait()


class HoldingStatistics(Zeros):
    def statistics(self):
        NEVER.wait()


class LeavingInFlush(Zeros):
    def flush(self):
        sys.exit(0)


class LeavingThread(Zeros):
    """Leaves a thread that Python waits for, until a test lets it go."""

    def __enter__(self):
        threading.Thread(target=LET_GO.wait, name="left-behind").start()
        return self


class LeavingProcess(Zeros):
    """Leaves a process in a session of its own."""

    def __enter__(self):
        waiting = [sys.executable, "-c", "input()"]
        LEFT.append(subprocess.Popen(waiting, stdin=subprocess.PIPE, start_new_session=True))
        return self


def answers_and_dwells(samples, reply):
    reply.complete(samples, zeros(samples))
    NEVER.wait()


def holds_the_interpreter():
    ctypes.PyDLL(None).sleep(3600)  # one call, which keeps all other threads waiting


def pipes():
    """Yield the descriptors and identities of pipes to write to, beyond the standard streams."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            number = int(name)
            found = os.fstat(number)
            is_writer = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            if number > 2 and stat.S_ISFIFO(found.st_mode) and is_writer:
                yield number, found.st_ino


KNOWN_PIPES = {inode for _, inode in pipes()}
"""A test's own, which are left alone."""


def new_pipes():
    return [number for number, inode in pipes() if inode not in KNOWN_PIPES]


def forges(samples, reply):
    for number in new_pipes():
        os.write(number, FORGED)
    reply.complete(samples, zeros(samples))


def closes(samples, reply):
    for number in new_pipes():
        os.close(number)
    reply.complete(samples, zeros(samples))


def moves(samples, reply):
    os.chdir("/")
    reply.complete(samples, zeros(samples))


def ignores_signals(samples, reply):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    reply.complete(samples, zeros(samples))


def closes_output(samples, reply):
    os.close(1)
    reply.complete(samples, zeros(samples))


def changes(change, *arguments):
    """Return what changes something of the process, and answers."""

    def answer(samples, reply):
        change(*arguments)
        reply.complete(samples, zeros(samples))

    return lambda: Uttering(answer)


def moves_away():
    """Go to a folder that is no more."""
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def allows_few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def goes_on_twice(samples, reply):
    """Fork, and answer in both processes."""
    if not LEFT and not os.fork():
        LEFT.append("this is the other one")
    reply.complete(samples, zeros(samples))


BACKENDS = [
    Ending("crashing", lambda: os.kill(os.getpid(), signal.SIGSEGV)),
    Ending("leaving", lambda: os._exit(0)),
    Ending("hanging", NEVER.wait),
    Ending("holding-the-interpreter", holds_the_interpreter),
    Ending("stopping", lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    Uncomputed("holding-submit", lambda: Uttering(answers_and_dwells)),
    Uncomputed("answering-nothing", lambda: Uttering(lambda samples, reply: None)),
    Uncomputed("holding-flush", HoldingFlush),
    Uncomputed("holding-start", HoldingStart),
    Uncomputed("holding-warm-up", HoldingWarmUp),
    Uncomputed("holding-exit", HoldingExit),
    Uncomputed("holding-statistics", HoldingStatistics),
    Uncomputed("leaving-in-flush", LeavingInFlush),
    Uncomputed("leaving-a-thread", LeavingThread),
    Uncomputed("leaving-a-process", LeavingProcess),
    Uncomputed("forging", lambda: Uttering(forges)),
    Uncomputed("closing-pipes", lambda: Uttering(closes)),
    Uncomputed("moving", lambda: Uttering(moves)),
    Uncomputed("ignoring-signals", lambda: Uttering(ignores_signals)),
    Uncomputed("closing-output", lambda: Uttering(closes_output)),
    Uncomputed("moving-away", changes(moves_away)),
    Uncomputed("reaping", changes(signal.signal, signal.SIGCHLD, signal.SIG_IGN)),
    Uncomputed("setting-an-alarm", changes(signal.alarm, 3600)),
    Uncomputed("masking-modes", changes(os.umask, 0o777)),
    Uncomputed("allowing-few-files", changes(allows_few_files)),
    Uncomputed("silencing-print", changes(setattr, sys, "stdout", None)),
    Uncomputed("going-on-twice", lambda: Uttering(goes_on_twice)),
]
