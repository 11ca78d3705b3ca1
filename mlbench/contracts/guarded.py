"""Marks for options whose value runs code, names a file or a secret, or opens an address.

The user may set such an option to anything. A document of someone else may not: a record that is repeated, or the
request of a node's client. See `mlbench.settings.layers.refuse_foreign`.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Annotated, Any, Literal


@dataclass(frozen=True, slots=True)
class Guarded:
    """A mark in an option's type: ``Annotated[str, RUNS_CODE]``."""

    does: str
    """Effect of the value, as the end of a sentence: ``runs code``."""


RUNS_CODE = Guarded("runs code")
"""A command, a library, a module; also a switch that turns off protection, and a mapping that is passed on
unchecked."""
NAMES_FILE = Guarded("names a file")
NAMES_SECRET = Guarded("names a secret")
"""Such as the environment variable that holds a key."""
OPENS_ADDRESS = Guarded("opens an address")


BY_NAME = Guarded("may run code, name a file or a secret, or open an address, by its name")
"""The mark of an option without one whose name suggests it."""

_TELLING = re.compile(
    r"(?:^|_)(?:path|file|folder|dir|directory|url|uri|address|host|command|start|script|library|libraries|module"
    r"|plugin|token|key|secret|password|credentials?|variable|unprotected)(?:_|$)"
)


def guard_of_option(name: str, wanted: Any) -> Guarded | None:
    """Return the mark of an option: from its type, or else from its name."""
    return guard_of(wanted) or (
        BY_NAME if _TELLING.search(name) and not is_closed(wanted, takes_switches=False) else None
    )


def is_closed(wanted: Any, *, takes_switches: bool = True) -> bool:
    """Return whether an option takes only numbers or words of a list, or is a switch if these count."""
    inner = getattr(wanted, "__origin__", wanted)
    is_number = isinstance(inner, type) and issubclass(inner, (int, float))
    return inner is Literal or (is_number and (takes_switches or inner is not bool))


def guard_of(wanted: Any) -> Guarded | None:
    """Return the mark of an option's type; without one, a path and a type that takes anything have a mark too."""
    if typing.get_origin(wanted) is Annotated:
        for each in wanted.__metadata__:
            if isinstance(each, Guarded):
                return each
    if isinstance(wanted, type) and issubclass(wanted, PurePath):
        return NAMES_FILE
    if wanted is Any or wanted is object or _takes_any_text(wanted):
        return RUNS_CODE
    return next(filter(None, map(guard_of, typing.get_args(wanted))), None)


def _takes_any_text(wanted: Any) -> bool:
    """Return whether a type is a mapping to text, which is passed on to another program."""
    kind = typing.get_origin(wanted) or wanted
    if not (isinstance(kind, type) and issubclass(kind, Mapping)):
        return False
    return any(each in (str, Any, object) for each in typing.get_args(wanted)[1:] or (Any,))
