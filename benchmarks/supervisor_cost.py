"""What the process between a run and its parent costs: processor time and memory.

    python benchmarks/supervisor_cost.py --times 20

The same program, an interpreter that waits for the end of its input, is started under the supervisor and without, in
turns. Processor time is what the kernel counts for each with all that it started; memory is the supervisor's own, once
it waits: what it alone holds, and what is resident, the interpreter's shared pages included.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import click
import psutil

from mlbench.execution.processes import supervisor

WAITING = [sys.executable, "-I", "-S", "-c", "input()"]
_PULSE_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one start took."""

    processor_s: float
    own_bytes: int
    resident_bytes: int


def run_alone() -> Cost:
    """Start the program, and end it."""
    process = subprocess.Popen(WAITING, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return _measure(process, lambda: True)


def run_supervised() -> Cost:
    """Start the program under the supervisor, and end it."""
    control, theirs = socket.socketpair()
    reader, writer = os.pipe()
    numbers = [str(theirs.fileno()), str(writer)]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", supervisor.__file__, *numbers, *WAITING],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[theirs.fileno(), writer],
    )
    theirs.close()
    os.close(writer)
    with control:
        cost = _measure(process, lambda: bool(supervisor.descendants(process.pid)))
    os.close(reader)
    return cost


def _measure(process: subprocess.Popen[bytes], has_started: Callable[[], bool]) -> Cost:
    seen = psutil.Process(process.pid)
    while not has_started() or seen.status() != psutil.STATUS_SLEEPING:
        time.sleep(_PULSE_S)
    memory = seen.memory_full_info()
    assert process.stdin
    process.stdin.close()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0  # it is waited for
    return Cost(processor_s=usage.ru_utime + usage.ru_stime, own_bytes=memory.uss, resident_bytes=memory.rss)


@click.command()
@click.option("--times", default=20, show_default=True)
def main(times: int) -> None:
    """Print medians."""
    alone, supervised = [], []
    for _ in range(times):
        alone.append(run_alone())
        supervised.append(run_supervised())
    without_ms, with_ms = (1e3 * statistics.median(each.processor_s for each in some) for some in (alone, supervised))
    own, resident = (
        statistics.median(getattr(each, name) for each in supervised) / 2**20
        for name in ("own_bytes", "resident_bytes")
    )
    click.echo(f"processor time: {with_ms - without_ms:.0f} ms ({with_ms:.0f} ms with, {without_ms:.0f} ms without)")
    click.echo(f"memory: {own:.1f} MiB of its own, {resident:.1f} MiB resident")


if __name__ == "__main__":
    main()
