"""The first lines of a process that another one has started with a socket (`SideProcess`, and a node's)."""

from __future__ import annotations

import faulthandler
import logging
import socket
import sys

from mlbench.execution.processes.supervisor import die_with_parent


def take_socket(name: str = "") -> socket.socket:
    """Return the socket whose descriptor is the first argument of this process; what it starts does not get it.

    The process ends with its parent. Its log, and where it was when it crashed, go to its standard error.

    Args:
        name: what each line of the log begins with, after time and level.
    """
    faulthandler.enable()
    die_with_parent()
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    label = f" {name}: %(name)s:" if name else ""
    form = f"%(asctime)s %(levelname)s{label} %(message)s"
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=form)
    return end
