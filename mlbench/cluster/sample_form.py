"""Samples as they travel: their arrays as they are in memory, and around them a form in JSON. Nothing is pickled.

A form says where the arrays belong. An array is ``"a"``, a scalar of NumPy ``"s"``, bytes are ``"b"``; any other value
is a list that begins with its kind: ``["v", value]``, ``["l", ...]`` (list), ``["t", ...]`` (tuple), ``["m", [name,
form], ...]`` (mapping), ``["o", "module:class", [field, form], ...]`` (dataclass or named tuple).
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from mlbench.execution.instances.messages import NoMessageError

Form = Any
"""JSON values."""

_PLAIN = (str, int, float, bool, type(None))
_DEEPEST = 32


def sample_to_wire(sample: Any, arrays: list[np.ndarray]) -> Form:
    """Return the form of a sample, and append its arrays.

    Raises:
        TypeError: it holds a value of a kind that does not travel.
    """
    match sample:
        case np.ndarray() if not sample.dtype.hasobject:
            arrays.append(np.asarray(sample))
            form: Form = "a"
        case np.generic():
            arrays.append(np.asarray(sample))
            form = "s"
        case bytes() | bytearray():
            arrays.append(np.frombuffer(sample, np.uint8))
            form = "b"
        case str() | int() | float() | None:
            form = ["v", sample]
        case list() | tuple() if type(sample) in (list, tuple):
            form = ["l" if type(sample) is list else "t", *(sample_to_wire(each, arrays) for each in sample)]
        case Mapping() if all(isinstance(name, str) for name in sample):
            form = ["m", *([name, sample_to_wire(value, arrays)] for name, value in sample.items())]
        case _ if names := _fields_of(kind := type(sample)):
            parts = ([name, sample_to_wire(getattr(sample, name), arrays)] for name in names)
            form = ["o", f"{kind.__module__}:{kind.__qualname__}", *parts]
        case _:
            raise TypeError(f"a sample contains a {type(sample).__name__}, which does not travel")
    return form


def samples_to_wire(samples: Sequence[Any]) -> tuple[Mapping[str, Form], list[np.ndarray]]:
    """Return facts for a message, which are the forms of samples, one where all are alike, and their arrays.

    Raises:
        TypeError: a sample holds a value of a kind that does not travel.
    """
    arrays: list[np.ndarray] = []
    forms = [sample_to_wire(each, arrays) for each in samples]
    are_alike = bool(arrays) and all(form == forms[0] for form in forms)
    return ({"count": len(forms), "form": forms[0]} if are_alike else {"forms": forms}), arrays


def samples_from_wire(facts: Mapping[str, Any], arrays: Sequence[np.ndarray], reader: SampleReader) -> list[Any]:
    """Return the samples of a message.

    Raises:
        NoMessageError: there are none in it.
    """
    if facts.get("form") == "a" and facts.get("count") == len(arrays):
        return list(arrays)
    left = iter(arrays)
    match facts:
        case {"count": int(count), "form": form} if 0 <= count <= len(arrays):
            found = [reader.read(form, left) for _ in range(count)]
        case {"forms": [*each]}:
            found = [reader.read(form, left) for form in each]
        case _:
            raise NoMessageError("samples without forms")
    if next(left, None) is not None:
        raise NoMessageError("more arrays than the samples have")
    return found


class SampleReader:
    """Makes samples of what arrived."""

    def __init__(self, packages: Sequence[str]) -> None:
        """Store whose classes a sample may hold: names of packages, of the contracts' and the workload's."""
        self._packages = tuple(packages)
        self._classes: dict[str, type] = {}

    def read(self, form: Form, arrays: Iterator[np.ndarray]) -> Any:
        """Return the sample of a form, with the next of the arrays.

        Raises:
            NoMessageError: form and arrays are not those of a sample, or its class is of another package.
        """
        try:
            return self._read(form, arrays, _DEEPEST)
        except (ValueError, TypeError, LookupError, AttributeError, ImportError, StopIteration) as error:
            raise NoMessageError(f"not a sample: {type(error).__name__}: {error}") from None

    def _read(self, form: Form, arrays: Iterator[np.ndarray], depth: int) -> Any:
        if form == "a":
            return next(arrays)
        if not depth:
            raise ValueError("nested too deeply")
        found: Any
        match form:
            case "s":
                found = next(arrays)[()]
            case "b":
                found = next(arrays).tobytes()
            case ["v", value] if isinstance(value, _PLAIN):
                found = value
            case ["l" | "t" as sequence, *parts]:
                each = [self._read(part, arrays, depth - 1) for part in parts]
                found = each if sequence == "l" else tuple(each)
            case ["m", *parts]:
                found = {str(name): self._read(each, arrays, depth - 1) for name, each in parts}
            case ["o", str(name), *parts]:
                kind = self._class(name)
                found = kind(**{field: self._read(each, arrays, depth - 1) for field, each in parts})
            case _:
                raise ValueError(f"a form {str(form)[:80]!r}")
        return found

    def _class(self, name: str) -> type:
        if name not in self._classes:
            module, _, title = name.partition(":")
            is_known = any(module == each or module.startswith(f"{each}.") for each in self._packages)
            if not is_known or any(part.startswith("_") for part in module.split(".")):  # such as __main__
                raise ValueError(f"a {name[:80]}, of a package that is not the workload's")
            found = getattr(importlib.import_module(module), title)
            if not (isinstance(found, type) and _fields_of(found)):
                raise ValueError(f"a {name[:80]}, which is not a class of samples")
            self._classes[name] = found
        return self._classes[name]


def _fields_of(kind: type) -> Sequence[str]:
    """Return the names that a dataclass or a named tuple is made with; none for other classes."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind) if field.init]
    return getattr(kind, "_fields", ()) if issubclass(kind, tuple) else ()
