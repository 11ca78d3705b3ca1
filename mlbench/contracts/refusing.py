"""Replies whose methods refuse samples instead of raising."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from mlbench.contracts.engine import Samples


class Refusing(Protocol):
    """A reply that can refuse the samples of a call."""

    def refuse(self, method: str, samples: Samples, error: BaseException) -> None:
        """Take what a method raised, for these samples."""


_Method = TypeVar("_Method", bound=Callable[..., None])


def refusing(method: _Method) -> _Method:
    """Make a reply's method refuse samples where it would raise: reading what an engine passes may run its code."""

    @wraps(method)
    def refuse_faults(reply: Refusing, samples: Samples, *given: Any, **named: Any) -> None:
        try:
            method(reply, samples, *given, **named)
        except BaseException as error:  # SystemExit too
            reply.refuse(method.__name__, samples, error)

    return cast("_Method", refuse_faults)
