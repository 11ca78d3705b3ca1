"""The cause of a failed check, equal for checks with the same cause, and the owner of the code."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType

from mlbench.conformance.subject import UnansweredError
from mlbench.contracts.backend import Backend
from mlbench.contracts.transform import Transform
from mlbench.errors import ConformanceError, PluginError

_CORE = "mlbench"
_KIT = "mlbench.conformance"


def cause_of(error: BaseException) -> str:
    """Return a key that two failures with the same cause share.

    That is the kind of the error and the line that raised it, since a message may name another graph each time. Demands
    of the kit are raised in one place; their own words tell them apart. An engine that answers nothing is one cause.
    """
    if isinstance(error, UnansweredError):
        return "nothing answered"
    if isinstance(error, ConformanceError):
        return error.message
    origin = error.__cause__ or error
    place = traceback.extract_tb(origin.__traceback__)[-1:]
    where = f" at {place[0].filename}:{place[0].lineno}" if place else ""
    return f"{type(origin).__name__}{where}"


def cause_of_hang(reason: str) -> str:
    """Return a key that two hangs in the same call share: the call, or empty if Python cannot tell it.

    Args:
        reason: as a `HangGuard` or LoadGen's watchdog gives it; how long it lasted, the line, who called, and how many
            samples were open differ each time.
    """
    if found := re.search(r"^no sign of life for \d+ s, in (.+? \(.+?):\d+\)", reason):
        return f"hang in {found[1]})"
    return f"hang: {reason.partition(':')[0]}" if reason.startswith("the engine does not return from") else "hang"


def raised_in(error: BaseException, plugin: object) -> str:
    """Return in whose code an error was raised: the innermost that is the plugin's or mlbench's; empty where unknown.

    Libraries that either of them called do not count: torch's exporter fails in mlbench's export. What breaks a
    plugin's contract is the plugin's, wherever it was noticed.
    """
    if type(error) is PluginError:  # and not GraphError, which may come from mlbench's export
        return ""
    theirs = type(plugin).__module__.partition(".")[0]
    noun = next((kind.__name__.lower() for kind in (Backend, Transform) if isinstance(plugin, kind)), "workload")
    below = error.__cause__.__traceback__ if error.__cause__ else None
    for frame in reversed([*_frames(error.__traceback__), *_frames(below)]):
        module = str(frame.f_globals.get("__name__", ""))
        root = module.partition(".")[0]
        if root == theirs and root != _CORE:
            return f"{Path(frame.f_code.co_filename).name} of the {noun}"
        if root == _CORE:
            return "" if module.startswith(_KIT) else f"{module.replace('.', '/')}.py of mlbench, not in the {noun}"
    return ""


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    """Yield the frames of a traceback, outermost first."""
    for frame, _ in traceback.walk_tb(trace):
        yield frame
