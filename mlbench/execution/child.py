"""The child's side of isolation: ``python -m mlbench.execution.child module:function descriptor``."""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import json
import logging
import signal
import sys
import traceback

from mlbench.errors import UnavailableError
from mlbench.execution.isolation import Channel

_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the function on the payload from standard input; tell the parent how it went."""
    faulthandler.enable()
    _end_with_the_parent()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    module, _, function = sys.argv[1].partition(":")
    channel = Channel(int(sys.argv[2]))
    payload = json.load(sys.stdin)
    try:
        channel.outcome(getattr(importlib.import_module(module), function)(payload, channel))
    except ModuleNotFoundError as error:
        traceback.print_exc()
        channel.error(UnavailableError(f"{error.name} is not installed.", hint="pip install 'mlbench[cpu]'"))
        return 1
    except Exception as error:  # told to the parent, whatever it is; the traceback stays in the log
        traceback.print_exc()
        channel.error(error)
        return 1
    return 0


def _end_with_the_parent() -> None:
    """Have the kernel end this process when its parent dies, however that dies: a run without a parent is nobody's."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
