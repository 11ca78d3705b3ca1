"""A node's process for one run: ``python -P -m mlbench.cluster <listener> <pipe>``, both descriptors; more on stdin.

A byte in the pipe says that clients can connect.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from mlbench.execution.processes.started_process import take_socket

if TYPE_CHECKING:
    from mlbench.cluster.acceptor import Acceptor

_LEAVES_WITHIN_S = 10.0
"""Time limit of an engine's end after its client has left."""


def main() -> int:
    """Serve the first client that opens a session, and leave when it is over."""
    listener = take_socket()

    from mlbench.cluster.acceptor import Acceptor
    from mlbench.cluster.session import NodeConfig, Session
    from mlbench.cluster.tls import server_context
    from mlbench.execution.preload import preload

    said = json.load(sys.stdin)
    config = NodeConfig.model_validate(said["config"])
    tls = server_context(Path(said["certificate"]), Path(said["key"])) if said["certificate"] else None
    session = Session(config, lambda: _leave(acceptor))
    acceptor = Acceptor(listener, bytes.fromhex(said["token"]), tls, session)
    acceptor.start()
    os.write(int(sys.argv[2]), b".")
    os.close(int(sys.argv[2]))
    preload(said["preload"])
    session.run()
    return 0


def _leave(acceptor: Acceptor) -> None:
    """Leave clients to the next process, and end this one soon, whatever its engine does."""
    acceptor.stop()
    limit = threading.Timer(_LEAVES_WITHIN_S, os._exit, (0,))
    limit.daemon = True
    limit.start()


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of connections and of an engine may still be there; nothing is left to be done
