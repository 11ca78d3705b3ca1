"""A plugin's facts as values that JSON can hold: a NaN in them must not lose the record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mlbench.errors import describe_error

_DEEPEST = 16
_MOST_VALUES = 100_000
_LONGEST_TEXT = 100_000
_LARGEST_INTEGER = 2**64


class NotPlainError(ValueError):
    """A value cannot be stored; the message says where it is, and what it is."""


def plain_entries(values: object) -> tuple[dict[str, Any], str]:
    """Return the entries of a mapping that can be stored, and why others cannot; empty where all can.

    NumPy's numbers and arrays become numbers and lists, tuples become lists, numbers as keys become text. Not stored
    are NaN, infinities, integers beyond 64 bits and objects; the entry of the outermost mapping that holds one is left
    out.
    """
    if not isinstance(values, Mapping):
        return {}, f"it is a {type(values).__name__}, not a mapping"
    kept: dict[str, Any] = {}
    reasons = []
    try:
        for key, value in values.items():
            try:
                name = _key(key, "")
                kept[name] = _Plain().value(value, name)
            except NotPlainError as error:
                reasons.append(str(error))
    except Exception as error:  # a mapping of a plugin's own
        reasons.append(describe_error(error))
    return kept, "; ".join(reasons)


class _Plain:
    """The conversion of one value, with the size so far."""

    def __init__(self) -> None:
        self._count = 0

    def value(self, value: Any, place: str, depth: int = 0) -> Any:
        """Return a value as JSON can hold it.

        Raises:
            NotPlainError: it cannot.
        """
        self._count += 1
        if depth > _DEEPEST or self._count > _MOST_VALUES:
            raise NotPlainError(f"{place} is nested or long without end")
        match value:
            case Mapping():
                named = ((_key(key, place), each) for key, each in value.items())
                return {name: self.value(each, f"{place}.{name}", depth + 1) for name, each in named}
            case list() | tuple():
                return self._list(value, place, depth)
            case None | bool() | str() | int() | float():
                return _scalar(value, place)
        numpy_value = getattr(value, "tolist", None)  # of an array, or of one of NumPy's numbers
        if type(value).__module__ == "numpy" and callable(numpy_value):
            plain = numpy_value()
            if type(plain) is not type(value):
                return self.value(plain, place, depth)
        raise NotPlainError(f"{place} is a {type(value).__name__}")

    def _list(self, values: Sequence[Any], place: str, depth: int) -> list[Any]:
        return [self.value(each, f"{place}[{number}]", depth + 1) for number, each in enumerate(values)]


def _key(key: object, place: str) -> str:
    match key:
        case str():
            return _text(key, place)
        case bool() | int() | float():
            return str(key)
    raise NotPlainError(f"a key {f'of {place} ' if place else ''}is a {type(key).__name__}, not text")


def _scalar(value: bool | int | float | str | None, place: str) -> bool | int | float | str | None:
    match value:
        case None | bool():
            return value
        case str():
            return _text(value, place)
        case int():
            if abs(value) >= _LARGEST_INTEGER:
                raise NotPlainError(f"{place} is an integer beyond 64 bits")
            return int(value)
    if not math.isfinite(value):
        raise NotPlainError(f"{place} is {float(value)}")
    return float(value)


def _text(text: str, place: str) -> str:
    if len(text) > _LONGEST_TEXT:
        raise NotPlainError(f"{place} is a text of {len(text)} characters")
    return str(text).encode("utf-8", "backslashreplace").decode()
