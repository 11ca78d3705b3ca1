"""An instance: ``python -P -m mlbench.execution.instances <descriptor> <its name> <processors> <device>``.

The processors are divided by commas; the device may be empty.
"""

from __future__ import annotations

import os
import sys

from mlbench.execution.devices import environment_of
from mlbench.execution.processes.started_process import take_socket


def main() -> int:
    """Pin this process to these processors before importing anything that counts them or starts threads; then serve."""
    line = take_socket(sys.argv[2])
    os.sched_setaffinity(0, map(int, sys.argv[3].split(",")))
    if device := sys.argv[4]:
        os.environ.update(environment_of(device))

    from mlbench.execution.instances.messages import Line
    from mlbench.execution.instances.serving import serve

    return serve(Line(line))


if __name__ == "__main__":
    sys.exit(main())
