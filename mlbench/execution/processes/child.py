"""The child's side of isolation: ``-m mlbench.execution.processes.child module:function descriptor``, or forked."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib
import inspect
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, NoReturn, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic_core import to_jsonable_python

from mlbench.execution.processes.channel import Channel
from mlbench.execution.processes.supervisor import die_with_parent
from mlbench.execution.processes.wire import Sender


def main(path: str, descriptor: int) -> int:
    """Run a function on the request from standard input; report to the parent how it went.

    Args:
        path: the function: ``module:function``.
        descriptor: of the pipe to the parent.

    Returns:
        The status to exit with.
    """
    faulthandler.enable()
    die_with_parent()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    module, _, function = path.partition(":")
    key, request = _read_start()
    channel = Channel(Sender(descriptor, key))
    try:
        called = getattr(importlib.import_module(module), function)
        channel.outcome(_as_values(called(_as_annotated(called, request), channel)))
    except SystemExit:
        raise
    except BaseException as error:  # any exception is reported to the parent; the traceback stays in the log
        traceback.print_exc()
        channel.error(error)
        return 1
    return 0


def _read_start() -> tuple[str, object]:
    """Return the key and the request, and leave an empty standard input for child processes."""
    start = json.load(sys.stdin)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return start["key"], start["request"]


def _as_annotated(function: Callable[..., object], request: object) -> object:
    """Return a request as the annotation of a function's first parameter says; as it is where there is none."""
    wanted = get_type_hints(function).get(next(iter(inspect.signature(function).parameters)))
    return TypeAdapter(wanted).validate_python(request) if wanted else request


def _as_values(answer: Any) -> Any:
    is_model = is_dataclass(answer) or isinstance(answer, BaseModel)
    return to_jsonable_python(answer) if is_model else answer


def leave(status: int) -> NoReturn:
    """End this process as always, but for freeing each object, which takes long once a framework was imported."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed, or the disk is full
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    leave(main(sys.argv[1], int(sys.argv[2])))
