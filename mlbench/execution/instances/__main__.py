"""An instance: ``python -P -m mlbench.execution.instances <descriptor> <its name> <processors> <device>``.

The processors are divided by commas; the device may be empty.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import socket
import sys

from mlbench.execution.devices import environment_of
from mlbench.execution.supervisor import die_with_parent


def main() -> int:
    """Pin this process to these processors before importing anything that counts them or starts threads; then serve."""
    faulthandler.enable()
    die_with_parent()
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, map(int, sys.argv[3].split(",")))
    if device := sys.argv[4]:
        os.environ.update(environment_of(device))
    form = f"%(asctime)s %(levelname)s {sys.argv[2]}: %(name)s: %(message)s"
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=form)

    from mlbench.execution.instances.messages import Line
    from mlbench.execution.instances.serving import serve

    return serve(Line(line))


if __name__ == "__main__":
    sys.exit(main())
