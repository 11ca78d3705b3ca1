"""What happens at a sample: given the samples, zeros to answer with, and where to reply."""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


def crash(samples, zeros, reply):
    print("no more registers", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(samples, zeros, reply):
    os._exit(3)


def hang(samples, zeros, reply):
    time.sleep(3600)


def lose(samples, zeros, reply):
    pass


def fail(samples, zeros, reply):
    raise RuntimeError("unsupported operator")


def nan(samples, zeros, reply):
    reply.complete(samples, zeros * np.float32("nan"))


def twice(samples, zeros, reply):
    reply.complete(samples, zeros)
    reply.complete(samples, zeros)


def count_in_floats(samples, zeros, reply):
    reply.complete(samples, zeros, [1.0] * len(samples))


def empty_samples(samples, zeros, reply):
    samples.ids.clear()


def dwell(samples, zeros, reply):
    reply.complete(samples, zeros)
    time.sleep(3600)


def exit_in_submit(samples, zeros, reply):
    sys.exit(0)


def hold_the_interpreter(samples, zeros, reply):
    ctypes.PyDLL(None).sleep(3600)  # one call, which keeps all other threads waiting


def pass_by(samples, zeros, reply):
    reply.complete(samples, zeros)


def forge(samples, zeros, reply):
    """Write to the pipe what looks like an outcome, and what looks like nothing."""
    forged = {"outcome": {"result": {"value": 1e9}}}
    lines = [json.dumps(forged), json.dumps({"kind": "outcome", "value": forged["outcome"]}), "[]", "7"]
    os.write(int(sys.argv[2]), "\n".join(lines).encode() + b"\n\xff\xfe no line")
    reply.complete(samples, zeros)


def misspell(samples, zeros, reply):
    raise RuntimeError(b"no file na\xefve.bin".decode("utf-8", "surrogateescape"))


def haunt(samples, zeros, reply):
    """Start what vLLM, Ray and MPI start: a process in a session of its own."""
    ghost = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    Path(os.environ["MLBENCH_RESULTS"]).with_name(f"ghost-{ghost.pid}").touch()
    reply.complete(samples, zeros)


def fill_disk(samples, zeros, reply):
    """Let the record land where no byte has room."""
    for folder in Path(os.environ["MLBENCH_RESULTS"]).glob(".*.partial"):
        if not (folder / "record.json").is_symlink():
            (folder / "record.json").symlink_to("/dev/full")
    reply.complete(samples, zeros)


def scribble(samples, zeros, reply):
    """Write into LoadGen's log more than LoadGen itself writes from then on."""
    for log in Path(os.environ["MLBENCH_RESULTS"]).glob(".*.partial/performance/mlperf_log_detail.txt"):
        with log.open("ab") as file:
            file.write(b":::MLLOG no record\n" * 50_000)
    reply.complete(samples, zeros)


def lay_pipes(samples, zeros, reply):
    """Put named pipes, which nobody reads, where files of the run are or will be; then write a forged line."""
    for folder in Path(os.environ["MLBENCH_RESULTS"]).glob(".*.partial"):
        for name in ("record.json", "log.txt", ".claim"):
            (folder / name).unlink(missing_ok=True)
            os.mkfifo(folder / name)
    forge(samples, zeros, reply)


def fill_memory(samples, zeros, reply):
    held = []
    while True:
        held.append(np.ones(2**21))
        time.sleep(0.01)
