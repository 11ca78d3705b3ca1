"""The child's side of isolation: ``python -m mlbench.execution.child module:function descriptor``."""

from __future__ import annotations

import faulthandler
import importlib
import json
import logging
import sys
import traceback

from mlbench.execution.isolation import Channel
from mlbench.execution.side_process import end_with_the_parent


def main() -> int:
    """Run the function on the payload from standard input; tell the parent how it went."""
    faulthandler.enable()
    end_with_the_parent()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    module, _, function = sys.argv[1].partition(":")
    channel = Channel(int(sys.argv[2]))
    payload = json.load(sys.stdin)
    try:
        channel.outcome(getattr(importlib.import_module(module), function)(payload, channel))
    except Exception as error:  # told to the parent, whatever it is; the traceback stays in the log
        traceback.print_exc()
        channel.error(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
