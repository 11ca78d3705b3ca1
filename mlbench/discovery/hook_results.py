"""Reads what a hook returned, a list of named objects, and checks commands: what ``mlbench --help`` needs."""

from __future__ import annotations

import re
import typing
from collections.abc import Sequence
from typing import Any

from mlbench.contracts.hookspecs import OWN_COMMANDS
from mlbench.errors import PluginError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


def check_list(brought: object, hook: str) -> Sequence[object]:
    """Return a hook's result; raises `PluginError` if it is not a list."""
    demand(isinstance(brought, list | tuple), f"{hook} returned {kind_of(brought)}; return a list")
    return tuple(typing.cast(Sequence[object], brought))


def name_of(thing: Any, kind: type) -> str:
    """Return the name of an object from a plugin.

    Raises:
        PluginError: it is not of that kind, or has no such name; the message says how.
        BaseException: the plugin's code raised it.
    """
    demand(not isinstance(thing, type), f"brings {kind_of(thing)}; return an instance of it")
    demand(isinstance(thing, kind), f"brings {kind_of(thing)}, which is not a {kind.__name__}")
    name = thing.name
    demand(type(name) is str, f"brings a {kind.__name__} whose name is {kind_of(name)}, not text")
    demand(
        _NAME.fullmatch(name) is not None,
        f"brings a {kind.__name__} called {name[:80]!r}; a name has up to 64 letters, digits, '_', '.', '+' and '-'",
    )
    return str(name)


def check_command(command: Any) -> None:
    """Check all that is needed of a click command; raises as `name_of`."""
    demand(command.name not in OWN_COMMANDS, f"mlbench already has a command {command.name!r}")
    text(command.get_short_help_str(), "the short help")


def text(value: object, what: str) -> str:
    """Return a text as a plain `str`; raises `PluginError` if it is none."""
    demand(isinstance(value, str), f"{what} is {kind_of(value)}, not text")
    return str.__str__(typing.cast(str, value))


def texts(values: object, what: str) -> tuple[str, ...]:
    """Return a list of texts as plain ones; raises as `text`."""
    demand(isinstance(values, list | tuple), f"{what} is {kind_of(values)}; return a tuple")
    return tuple(text(each, f"one of {what}") for each in typing.cast(Sequence[object], values))


def kind_of(value: object) -> str:
    """Return the type of a value without calling its code."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"a {type(value).__name__}"


def demand(is_kept: bool, reason: str) -> None:
    """Raise `PluginError` with a reason unless something is as it must be."""
    if not is_kept:
        raise PluginError(reason)
