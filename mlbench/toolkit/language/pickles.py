"""Reads tables that pandas pickled, without pandas and without running code from the file.

A pickle names functions and classes to call. This reader knows the dozen that pandas and NumPy name for a table of
text, lists and numbers, and stands in for each with code of its own that only collects; any other name is refused.
"""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from mlbench.errors import DataError
from mlbench.system.documents import foreign, open_regular

_GZIP = b"\x1f\x8b"
_AS_JSON = "Save it again as JSON: table.to_json('table.json', orient='records')."
_ARROW_PLACES = {"string": "<i4", "large_string": "<i8"}
_ELEMENTS = ("O", "i4", "i8", "f8", "b1")
"""NumPy's names of the elements that a table of the official kind holds; O is any Python object."""


def read_pickled_table(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a pickled pandas DataFrame, by name and in its order; the file may be gzip-ed.

    Columns of text, lists, integers, floats or booleans, as pandas 1.3 to 3 write them; the index is passed over.

    Raises:
        DataError: the file cannot be read, is not a pickle, or names a class that a plain table does not need.
    """
    try:
        opened = open_regular(path)
    except OSError as error:
        raise DataError(f"table cannot be read: {path}: {error.strerror or error}.") from None
    with opened, foreign(path, "is not a pickled pandas table of plain columns", hint=_AS_JSON):
        is_packed = opened.read(2) == _GZIP
        opened.seek(0)
        with gzip.GzipFile(fileobj=opened) if is_packed else nullcontext(opened) as file:
            found = _TableUnpickler(file).load()
        if not isinstance(found, _Frame):
            raise ValueError(f"it contains a {type(found).__name__}, not a pandas table")
        return found.columns()


class _TableUnpickler(pickle.Unpickler):
    """Only calls the stand-ins below."""

    def __init__(self, file: BinaryIO | gzip.GzipFile) -> None:
        super().__init__(file)

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy._core.", "numpy.core.")  # its name from NumPy 2 on
        try:
            return _STAND_INS[f"{module}.{name}"]
        except KeyError:
            raise ValueError(f"it wants {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise ValueError("it refers to objects outside the file")


class _Element:
    """Stands for `numpy.dtype`."""

    def __init__(self, code: str, *_: object) -> None:
        self.code = {"O8": "O"}.get(code, code)
        if self.code not in _ELEMENTS:
            raise ValueError(f"it contains elements of type {code}")

    def __setstate__(self, state: Sequence[Any]) -> None:
        if state[1] not in ("<", "|"):
            raise ValueError(f"it contains numbers in byte order {state[1]}")


class _Array:
    """Stands for `numpy.ndarray`, as nested lists."""

    def __init__(self, *_: object) -> None:
        self.elements: list[Any] = []

    def __setstate__(self, state: Sequence[Any]) -> None:
        _, shape, element, is_fortran, content = state
        self.fill(content, element, shape, is_fortran=is_fortran)

    def fill(self, content: Any, element: _Element, shape: Sequence[int], *, is_fortran: bool) -> None:
        """Take the elements from a list of objects, or from the bytes of numbers."""
        import numpy as np

        if element.code == "O":
            array = np.empty(len(content), object)
            array[:] = [_plain(each) for each in content]
        else:
            array = np.frombuffer(content, np.dtype(element.code))
        self.elements = array.reshape(tuple(shape), order="F" if is_fortran else "C").tolist()


def _from_buffer(content: Any, element: _Element, shape: Sequence[int], order: str) -> _Array:
    """Stand for the function that NumPy's protocol 5 names."""
    array = _Array()
    array.fill(content, element, shape, is_fortran=order == "F")
    return array


def _number(element: _Element, content: bytes) -> Any:
    """Stand for the function that NumPy names for a single number."""
    array = _Array()
    array.fill(content, element, (1,), is_fortran=False)
    return array.elements[0]


def _plain(value: Any) -> Any:
    return value.elements if isinstance(value, _Array) else value


class _Texts:
    """Stands for `pandas.arrays.ArrowStringArray`, a column of text since pandas 3."""

    def __init__(self, *_: object) -> None:
        self.elements: list[Any] = []

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.elements = list(state["_pa_array"])


def _bytes(content: object) -> bytes:
    """Stand for the function that pyarrow names for a piece of memory; a number would be a length."""
    if not isinstance(content, bytes | bytearray):
        raise ValueError("a piece of its memory is not bytes")
    return bytes(content)


def _arrow_texts(parts: Sequence[Any]) -> list[str | None]:
    """Stand for the function that pyarrow names for an array: text by the places where each ends."""
    import numpy as np

    kind, length, _, offset, (valid, places, content), _, _ = parts
    if kind not in _ARROW_PLACES:
        raise ValueError(f"it contains elements of Arrow's type {kind}")
    ends = np.frombuffer(places, _ARROW_PLACES[kind])[offset : offset + length + 1].tolist()
    bits = None if valid is None else np.unpackbits(np.frombuffer(valid, np.uint8), bitorder="little")[offset:]
    whole = bytes(content or b"")
    return [
        whole[begin:end].decode() if bits is None or bits[place] else None
        for place, (begin, end) in enumerate(pairwise(ends))
    ]


@dataclass(frozen=True, slots=True)
class _Index:
    """Stands for `pandas.Index` and `pandas.RangeIndex`."""

    labels: list[Any]


def _index(kind: type[_Index], parts: dict[str, Any]) -> _Index:
    return kind(parts["data"].elements if isinstance(parts.get("data"), _Array | _Texts) else [])


@dataclass(frozen=True, slots=True)
class _Block:
    """Stands for pandas' block of columns of one type."""

    rows: Sequence[list[Any]]
    places: Sequence[int]
    """Column of each row."""


def _block(values: Any, places: Any, dimensions: int) -> _Block:
    if not isinstance(values, _Array | _Texts) or dimensions != 2:
        raise ValueError("a block of its columns is not an array")
    rows = [values.elements] if isinstance(values, _Texts) else values.elements
    if isinstance(places, slice):
        return _Block(rows, range(places.start, places.stop, places.step or 1))
    return _Block(rows, places.elements)


class _Blocks:
    """Stands for pandas' manager of blocks."""

    def __init__(self, blocks: Sequence[_Block], axes: Sequence[_Index]) -> None:
        self.blocks = blocks
        self.names = axes[0].labels


class _Frame:
    """Stands for `pandas.DataFrame`."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._blocks: _Blocks = state["_mgr"]

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns in the table's order."""
        blocks = self._blocks.blocks
        by_place = {place: row for each in blocks for place, row in zip(each.places, each.rows, strict=True)}
        return {str(name): by_place[place] for place, name in enumerate(self._blocks.names)}


_STAND_INS: dict[str, Callable[..., Any]] = {
    "builtins.slice": slice,
    "numpy.core.multiarray._reconstruct": lambda *_: _Array(),
    "numpy.core.multiarray.scalar": _number,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "numpy.dtype": _Element,
    "numpy.ndarray": _Array,
    "pandas.core.frame.DataFrame": _Frame,
    "pandas.core.internals.managers.BlockManager": _Blocks,
    "pandas._libs.internals._unpickle_block": _block,
    "pandas.core.indexes.base._new_Index": _index,
    "pandas.core.indexes.base.Index": _Index,
    "pandas.core.indexes.range.RangeIndex": _Index,
    # pandas 3
    "pandas.DataFrame": _Frame,
    "pandas.Index": _Index,
    "pandas.RangeIndex": _Index,
    "pandas.StringDtype": lambda *_: None,
    "pandas.arrays.ArrowStringArray": _Texts,
    "pyarrow.lib._restore_array": _arrow_texts,
    "pyarrow.lib.py_buffer": _bytes,
    "pyarrow.lib.type_for_alias": str,
}
