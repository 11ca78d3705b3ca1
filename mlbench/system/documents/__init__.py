"""Reads external files within limits: text, JSON and TOML.

Whatever lies at a path, reading it returns or raises: it does not wait for a pipe, and takes no more memory than the
limit on a file's size allows. What is returned can be worked with: it nests no deeper than `DEPTH`, integers fit in 128
bits, numbers are finite unless NaN was asked for, and text is Unicode.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from io import BufferedReader
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from mlbench.errors import DataError, first_line
from mlbench.system.documents.door import DATA_BYTES, DEPTH, Budget, BudgetSpentError, Meter, foreign, reason_of
from mlbench.system.documents.kinds import NOT_TEXT, kind_of_bytes, refusal
from mlbench.system.guards import convert_errors, undo_on_error

if TYPE_CHECKING:
    from pydantic import ValidationError

__all__ = ["DATA_BYTES", "DEPTH", "Budget", "BudgetSpentError", "Meter", "foreign", "reason_of", "refusal"]

JsonObject = Mapping[str, Any]
"""A JSON object, or a TOML table, whose keys are somebody else's to choose. Where they are known, a type names them."""

DOCUMENT_BYTES = 1 << 28
"""The largest file of settings, descriptions or results that is read."""

_TOML_BYTES, _CHUNK_BYTES, _LOOK_BYTES = 1 << 22, 1 << 24, 1 << 12

_TOO_DEEP = f"it nests deeper than {DEPTH} levels"

_LARGEST_INTEGER = 2**127
"""A long run of a large model has more operations than 64 bits hold."""

_LONG_INTEGER, _LONG_EXPONENT = re.compile("[0-9]{39}"), re.compile(r"[eE]\+?[0-9]{3}")
"""Find numbers that may be too large, and text that looks so; one pattern of both takes longer than two searches."""

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")
"""JSON's spelling of a half of a surrogate pair."""

_LONG_KEY = re.compile(rf"""(?<![\w"'-])(?:(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*){{{DEPTH}}}""")
"""TOML's key of many parts; tomllib's time grows with the square of their number."""


_ROOTS: ContextVar[tuple[str, ...]] = ContextVar("roots", default=())
"""Absolute paths that end in a separator."""


@contextmanager
def inside(root: Path) -> Iterator[None]:
    """Keep all that is opened below a folder in it: links of a tree from somebody else lead to files of the user's."""
    token = _ROOTS.set((*_ROOTS.get(), os.path.join(root.absolute(), "")))
    try:
        yield
    finally:
        _ROOTS.reset(token)


def leads_out(path: Path) -> str:
    """Return the real path of what lies below the folder of an `inside` and leads out of it; of all else nothing."""
    for root in _ROOTS.get():
        place = str(path.absolute())
        if place.startswith(root) and _turns(root, place[len(root) :]):
            real = os.path.realpath(place)
            if not Path(real).is_relative_to(os.path.realpath(root)):
                return real
    return ""


def _turns(root: str, below: str) -> bool:
    """Return whether a part of a path below a root is a link or leads up; where none is, the path stays below."""
    parts = below.split(os.sep)
    return ".." in parts or any(os.path.islink(root + each) for each in accumulate(parts, os.path.join))


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading; its position is at the beginning.

    Raises:
        OSError: it cannot be opened, is a folder, a pipe or a device, or leads out of the folder of an `inside`.
    """
    try:
        if target := leads_out(path):
            raise OSError(errno.EXDEV, f"it leads out of its folder, to {target}")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without: a pipe waits for a writer
    except ValueError:  # a NUL, or half of a surrogate pair
        raise OSError(errno.EINVAL, "no path") from None
    with undo_on_error(partial(os.close, descriptor)):
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "no regular file")
        return os.fdopen(descriptor, "rb")


def open_to_copy(path: Path) -> BufferedReader:
    """Open a file as `open_regular`; raises `DataError` where that raises `OSError`, which is then the copy's alone."""
    try:
        return open_regular(path)
    except OSError as error:
        raise DataError(f"{path} cannot be copied: {error.strerror}.") from None


def copy_file(source: Path, target: Path) -> None:
    """Copy what a regular file holds.

    Raises:
        DataError: as `open_to_copy`.
        OSError: the copy cannot be written.
    """
    with open_to_copy(source) as file, target.open("wb") as copy:
        shutil.copyfileobj(file, copy, _CHUNK_BYTES)


def copy_folder(source: Path, target: Path) -> None:
    """Copy all below a folder to where nothing is; raises as `copy_file`, also for a link to a folder."""
    with inside(source):
        for place, folders, names in os.walk(source, onerror=_raise):
            copy = target / Path(place).relative_to(source)
            copy.mkdir(parents=True)
            for name in [*names, *(each for each in folders if os.path.islink(os.path.join(place, each)))]:
                copy_file(Path(place, name), copy / name)


def _raise(error: OSError) -> None:
    raise error


def open_to_write(path: Path, *, appends: bool = False) -> BinaryIO:
    """Open a file for writing, from its beginning or its end; never waits for a pipe's reader.

    Raises:
        OSError: it cannot be opened, or is such a pipe.
    """
    where = os.O_APPEND if appends else os.O_TRUNC
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC | where, 0o666), "wb")


def is_file(path: Path) -> bool:
    """Return whether a regular file is, or may be, at a path: without permission, reading it gives the reason."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def read_bytes(
    path: Path, *, what: str, hint: str = "", missing_hint: str | None = None, limit_bytes: int = DOCUMENT_BYTES
) -> bytes:
    """Return the content of a file.

    Args:
        path: of the file.
        what: what it should be: ``price file``.
        hint: what to do about one that cannot be read.
        missing_hint: what to do about one that does not exist, if that differs.
        limit_bytes: the largest that is read.

    Raises:
        DataError: it is missing, cannot be read, is not a regular file, or is larger.
    """
    try:
        with open_regular(path) as file:
            content = _read_up_to(file, limit_bytes + 1)
    except OSError as error:
        if missing_hint is not None and isinstance(error, FileNotFoundError):
            raise DataError(f"{what} not found: {path}.", hint=missing_hint) from None
        raise DataError(f"{what} cannot be read: {path}: {error.strerror}.", hint=hint) from None
    if len(content) > limit_bytes:
        raise DataError(f"{what} is larger than {limit_bytes} bytes: {path}.", hint=hint)
    return content


def _read_up_to(file: BinaryIO, most: int) -> bytes:
    """Return what is left of a file, ``most`` bytes at most; asked for at once they would all be allocated."""
    parts, length = [], 0
    while length < most and (part := file.read(min(_CHUNK_BYTES, most - length))):
        parts.append(part)
        length += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def read_text(  # noqa: PLR0913 - what may be said of a file
    path: Path,
    *,
    what: str,
    hint: str = "",
    missing_hint: str | None = None,
    limit_bytes: int = DOCUMENT_BYTES,
    replaces_errors: bool = False,
) -> str:
    r"""Return a text file in UTF-8, line ends as ``\n``, without a byte order mark; arguments as for `read_bytes`.

    Args:
        path: of the file.
        what: what it should be.
        hint: what to do about one that cannot be read.
        missing_hint: what to do about one that does not exist.
        limit_bytes: the largest that is read.
        replaces_errors: whether bytes that are not UTF-8 are replaced, and not refused.

    Raises:
        DataError: as `read_bytes`, or it is not UTF-8.
    """
    content = read_bytes(path, what=what, hint=hint, missing_hint=missing_hint, limit_bytes=limit_bytes)
    found = kind_of_bytes(content[:_LOOK_BYTES])
    if found and found.name in NOT_TEXT:
        raise DataError(f"{what} is not text: {path}: it is {found.name}.", hint=found.remedy)
    try:
        text = content.decode("utf-8-sig", "replace" if replaces_errors else "strict")
    except UnicodeDecodeError as error:
        raise refusal(path, f"{what} is not text: {path}: byte {error.start} is not UTF-8.", hint=hint) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(  # noqa: PLR0913 - what may be said of a file
    path: Path,
    *,
    what: str,
    hint: str = "",
    missing_hint: str | None = None,
    limit_bytes: int = DOCUMENT_BYTES,
    allows_nan: bool = False,
) -> Any:
    """Return the content of a JSON file; arguments as for `read_bytes` and `parse_json`.

    Raises:
        DataError: as `read_text`, or `parse_json` refuses it.
    """
    text = read_text(path, what=what, hint=hint, missing_hint=missing_hint, limit_bytes=limit_bytes)
    try:
        return parse_json(text, allows_nan=allows_nan)
    except ValueError as error:
        raise refusal(path, f"{what} {path} is not JSON: {error}.", hint=hint) from None


def read_json_object(path: Path, *, what: str, hint: str = "") -> dict[str, Any]:
    """Return the object that a JSON file holds; raises `DataError` as `read_json`, and for anything else."""
    found = read_json(path, what=what, hint=hint)
    if not isinstance(found, dict):
        raise refusal(path, f"{what} {path} is not a JSON object.", hint=hint)
    return found


def read_toml(path: Path, *, what: str, hint: str = "") -> dict[str, Any]:
    """Return the content of a TOML file; arguments as for `read_bytes`.

    Raises:
        DataError: as `read_text`, or `parse_toml` refuses it.
    """
    text = read_text(path, what=what, hint=hint, limit_bytes=_TOML_BYTES)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise refusal(path, f"{what} {path} is not a TOML file: {error}.", hint=hint) from None


def parse_json(text: str, *, allows_nan: bool = False) -> Any:
    """Parse JSON.

    Args:
        text: the document.
        allows_nan: whether NaN and infinities, which are Python's addition to JSON, may be in it.

    Raises:
        ValueError: it is not JSON, nests too deep, has a number that is too large, or text that is not Unicode.
    """
    hooks: dict[str, Any] = {} if allows_nan else {"parse_constant": _refuse_constant}
    if _LONG_INTEGER.search(text) or _LONG_EXPONENT.search(text):
        hooks |= {"parse_int": _integer, "parse_float": _float}
    try:
        value = json.loads(text, **hooks)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_depth(value)
    if _HALF_CHARACTER.search(text):
        _check_characters(value)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: it is not TOML, nests too deep, or has an integer that is too large.
    """
    import tomllib

    if _LONG_KEY.search(text):
        raise ValueError(_TOO_DEEP)
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise ValueError("it has an integer that is too large") from None
    _check_depth(value, checks_integers=True)
    return value


@contextmanager
def refuse_odd_values(what: str) -> Iterator[None]:
    """Turn errors over values of an unexpected type into `DataError`.

    For external files whose keys may hold anything, where checking each one would be longer than the work: the record
    of a run, LoadGen's log.

    Args:
        what: the work is done on, for the message.
    """

    def refuse(error: Exception) -> DataError:
        return DataError(f"{what}: a value is of the wrong kind: {type(error).__name__}: {first_line(error)}.")

    with convert_errors(refuse):
        yield


def first_problem(error: ValidationError, *, whole: str = "the file") -> str:
    """Return the first thing that pydantic found wrong, after its place in what was read: ``runs.0.tier: ...``."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or whole}: {first['msg']}"


def _check_depth(value: Any, *, checks_integers: bool = False) -> None:
    """Raise `ValueError` for nesting that is too deep. Iterative: recursion would fail first."""
    level = [value]
    for _ in range(DEPTH + 1):
        containers = [each for each in level if type(each) in (dict, list)]
        if not containers:
            return
        level = [entry for each in containers for entry in (each.values() if type(each) is dict else each)]
        if checks_integers:
            for entry in level:
                _check_integer(entry)
    raise ValueError(_TOO_DEEP)


def _check_integer(value: Any) -> None:
    if type(value) is int and not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER:
        raise ValueError("it has an integer that is too large")


def _check_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it has half of a surrogate pair, which is not a character") from None


def _integer(digits: str) -> int:
    if len(digits) > len(str(-_LARGEST_INTEGER)):  # Python refuses thousands of digits in words of its own
        raise ValueError("it has an integer that is too large")
    found = int(digits)
    _check_integer(found)
    return found


def _float(digits: str) -> float:
    found = float(digits)
    if not math.isfinite(found):
        raise ValueError("it has a number that is too large")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"it has {name}, which JSON does not know")
