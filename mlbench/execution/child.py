"""The child's side of isolation: ``python -P -m mlbench.execution.child module:function descriptor``."""

from __future__ import annotations

import faulthandler
import importlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from typing import Any

from mlbench.execution.channel import Channel
from mlbench.execution.supervisor import die_with_parent
from mlbench.execution.wire import Sender


def main() -> int:
    """Run the function on the payload from standard input; report to the parent how it went."""
    faulthandler.enable()
    die_with_parent()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    module, _, function = sys.argv[1].partition(":")
    start = _read_start()
    channel = Channel(Sender(int(sys.argv[2]), start["key"]))
    try:
        channel.outcome(getattr(importlib.import_module(module), function)(start["payload"], channel))
    except SystemExit:
        raise
    except BaseException as error:  # reported to the parent, whatever it is; the traceback stays in the log
        traceback.print_exc()
        channel.error(error)
        return 1
    return 0


def _read_start() -> Mapping[str, Any]:
    """Return the key and the payload, and leave an empty standard input: what is started from here inherits it."""
    start: Mapping[str, Any] = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return start


if __name__ == "__main__":
    sys.exit(main())
