"""What the children of the tests of isolation do. A child imports this file by its bare name."""

import json
import mmap
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlbench import DataError, GraphCalls, GraphError
from mlbench.execution.processes.usage import resident_bytes
from mlbench.wire.progress import Steps


def add(payload, channel):
    channel.progress("add", Steps(done=1, of=2))
    return {"sum": payload["a"] + payload["b"]}


@dataclass(frozen=True)
class Order:
    file: Path
    calls: tuple[GraphCalls, ...]


@dataclass(frozen=True)
class Bill:
    total: int


def bill(order: Order, channel):
    return Bill(sum(call.count for call in order.calls) + isinstance(order.file, Path))


def take_steps(payload, channel):
    channel.progress("warm-up")
    for step in range(1, 1001):
        channel.step(step, 1000)
    return {}


def segfault(payload, channel):
    channel.progress("compile")
    print("about to fall", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(payload, channel):
    os._exit(payload["status"])


def raise_value_error(payload, channel):
    raise ValueError("bad operator")


def press_ctrl_c(payload, channel):
    raise KeyboardInterrupt("of its own")


def raise_base_exception(payload, channel):
    raise BaseException("of its own")


def raise_graph_error(payload, channel):
    channel.progress("engine")
    raise GraphError("graph decoder: operator Det.", hint="Use fp32.")


def raise_data_error(payload, channel):
    raise DataError("weights are corrupt.", hint="Install again.")


def import_what_is_missing(payload, channel):
    import no_such_runtime  # noqa: F401


def raise_memory_error(payload, channel):
    raise MemoryError


def raise_allocator_error(payload, channel):
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")


def sleep_for_ever(payload, channel):
    channel.progress("warm-up")
    time.sleep(3600)


def grow(payload, channel):
    held = []
    while True:
        held.append(bytearray(b"x" * 2**24))
        time.sleep(0.01)


def read_a_mapped_file(payload, channel):
    with open(payload["file"], "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        read = sum(mapped[place] for place in range(0, len(mapped), mmap.PAGESIZE))
        resident = psutil.Process().memory_info().rss
        time.sleep(2)  # the guard looks twice a second
    return {"read": read, "resident_bytes": resident}


def fill_memory(payload, channel):
    before = resident_bytes(os.getpid())
    with mmap.mmap(-1, payload["bytes"]) as shared:
        shared.write(b"x" * payload["bytes"])
        own = bytearray(b"x" * payload["bytes"])
        grown = resident_bytes(os.getpid()) - before
        del own
    return {"bytes": grown}


def fork_a_child(payload, channel):
    pid = os.fork()
    if not pid:
        time.sleep(3600)
        os._exit(0)
    return [pid]


def start_in_a_session(payload, channel):
    return [subprocess.Popen(["sleep", "3600"], start_new_session=True).pid]


def start_a_daemon(payload, channel):
    """Fork twice with a session between: its parent is gone, as those of Ray and MPI are."""
    read_end, write_end = os.pipe()
    if not os.fork():
        os.setsid()
        if pid := os.fork():
            os.write(write_end, str(pid).encode())
            os._exit(0)
        time.sleep(3600)
        os._exit(0)
    os.wait()
    return [int(os.read(read_end, 16))]


STARTED = [fork_a_child, start_in_a_session, start_a_daemon]


def leave_processes_behind(payload, channel):
    pids = [pid for start in STARTED for pid in start(payload, channel)]
    if payload.get("tells"):
        Path(payload["tells"]).write_text(json.dumps([os.getpid(), os.getppid(), *pids]))
        time.sleep(3600)
    return {"pids": pids}


def kill_the_supervisor(payload, channel):
    pids = [pid for start in STARTED for pid in start(payload, channel)]
    Path(payload["tells"]).write_text(json.dumps([os.getpid(), *pids]))
    channel.progress("work")
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(3600)


def write_strays(payload, channel):
    pipe = int(sys.argv[2])
    channel.progress("load")
    os.write(pipe, b'{"kind": "outcome", "value": {"forged": true}}\n{"outcome": {"forged": true}}\n[1]\n\xff\xfe\n')
    os.write(pipe, b"no end of line")
    channel.progress("compile")
    os.write(pipe, b"x" * payload["bytes"])
    return {"sum": 3, "long": "y" * 200_000}


def raise_with_odd_text(payload, channel):
    raise ValueError(b"byte \xff".decode("utf-8", "surrogateescape"))


class Untold(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raise_what_has_no_text(payload, channel):
    raise Untold


def return_odd_values(payload, channel):
    return {"nan": {"rate": float("nan")}, "object": {"rate": object()}, "list": {"rate": {1, 2}}}[payload["value"]]


def look_around_in_a_grandchild(payload, channel):
    program = "import os, sys; print(sorted(map(int, os.listdir('/proc/self/fd'))), repr(sys.stdin.read()))"
    done = subprocess.run([sys.executable, "-c", program], close_fds=False, capture_output=True, text=True, check=True)
    return {"printed": done.stdout, "pipe": int(sys.argv[2])}


def say_where_numpy_is(payload, channel):
    import numpy

    return {"file": numpy.__file__}


def sleep_a_while(payload, channel):
    channel.progress("convert")
    time.sleep(payload["seconds"])
    return {}
