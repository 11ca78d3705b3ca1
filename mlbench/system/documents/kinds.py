"""Identifies a file that is not of the expected kind, for the errors of all readers.

A reader that fails asks it, so that the reason is not "its header is damaged" but "it is a pointer of git-lfs".
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mlbench.errors import DataError, one_line

_LOOK_BYTES = 1 << 16
_PLACES = 16
"""Pieces of a file that are looked at for zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """The kind of a file or folder."""

    name: str
    """After "it is"."""
    remedy: str
    suffixes: tuple[str, ...] = ()
    """Endings of files that should be so."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """The first bytes by which a kind of file is recognised."""

    kind: FileKind
    shows: Callable[[bytes], object]


def _kind(name: str, remedy: str, *suffixes: str) -> FileKind:
    return FileKind(name=name, remedy=remedy, suffixes=suffixes)


def _begins(*magic: bytes) -> Callable[[bytes], bool]:
    return lambda begin: begin.startswith(magic)


PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|!--|html|head|body|title|meta|script|\?xml)", re.IGNORECASE)
"""The beginning of a web page; a login page may begin with a comment."""

_OLD_LOG = re.compile(rb'"?pid"?: \d+, "?tid"?: \d+, "?ts"?: \d+ns : ')
_SUMMARY = re.compile(rb"=+\s+MLPerf Results Summary")
_UTF16 = re.compile(rb"([\x09\x0a\x0d\x20-\x7e]\x00){4}|(\x00[\x09\x0a\x0d\x20-\x7e]){4}")

_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)

_UTF8 = "Save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE > NEW."
_UNPACK = "Unpack it."
_SERVER = "Download it again by hand; sign in if the site requires it."

_SIGNS = (
    _Sign(
        _kind("a pointer of git-lfs and not the file", "Run git lfs pull in the clone that it comes from."),
        _begins(b"version https://git-lfs"),
    ),
    _Sign(
        _kind("a log in LoadGen's old text form", "Logs with :::MLLOG lines are read, which LoadGen writes since 1.0."),
        _OLD_LOG.match,
    ),
    _Sign(_kind("LoadGen's summary", "Its detail log is mlperf_log_detail.txt.", ".txt"), _SUMMARY.match),
    _Sign(_kind("a web page, perhaps a login", _SERVER, ".html", ".htm", ".xhtml", ".xml", ".svg"), PAGE.match),
    _Sign(_kind("packed by gzip", _UNPACK, ".gz", ".tgz", ".pkl", ".pickle"), _begins(b"\x1f\x8b")),
    _Sign(_kind("packed by xz", _UNPACK, ".xz"), _begins(b"\xfd7zXZ")),
    _Sign(
        _kind("a zip archive", _UNPACK, ".zip", ".npz", ".pt", ".pth", ".ptc", ".bin", ".ckpt", ".xlsx"),
        _begins(b"PK\x03\x04"),
    ),
    _Sign(_kind("a GGUF file", "Name the model in the form of Hugging Face: safetensors.", ".gguf"), _begins(b"GGUF")),
    _Sign(_kind("text in UTF-16", _UTF8), lambda begin: begin.startswith(_UTF16_MARKS) or _UTF16.match(begin)),
    _Sign(
        _kind("a pickle", "Save it in the required form.", ".pkl", ".pickle", ".pt", ".pth", ".bin", ".ckpt"),
        lambda begin: re.match(rb"\x80[\x02-\x05]", begin),
    ),
)
_EMPTY = _kind("empty", "Copy it again; is the disk full?")
_ZEROS = _kind("only zeros", "Copy it again: its content was never written.")
NOT_TEXT = ("packed by gzip", "packed by xz", "a zip archive", "text in UTF-16", "only zeros")
"""Names of kinds that are never read as text."""


def kind_of(path: Path) -> FileKind | None:
    """Return the kind of a file or folder, if its name does not show it; None: unknown."""
    if os.path.isdir(path):
        return _folder_kind(path)
    if not os.path.isfile(path):
        return None
    try:
        with path.open("rb") as file:
            begin, size = file.read(_LOOK_BYTES), os.fstat(file.fileno()).st_size
            is_zero = bool(begin) and not any(begin) and all(_zeros(path, size))
    except (OSError, ValueError):
        return None
    found = _ZEROS if is_zero else kind_of_bytes(begin)
    return None if found and path.suffix.lower() in found.suffixes else found


def kind_of_bytes(begin: bytes) -> FileKind | None:
    """Return what begins so; of all of a file that is shorter than 64 KiB its last bytes count too."""
    if not begin:
        return _EMPTY
    if found := next((sign.kind for sign in _SIGNS if sign.shows(begin)), None):
        return found
    return _error_kind(begin)


def refusal(path: Path, message: str, *, hint: str = "") -> DataError:
    """Return the error of a reader about a file, with what it is where it is something else altogether.

    Args:
        path: of the file, or of the folder that it should be in.
        message: of the reader, a sentence.
        hint: what to do where the file is nothing else that is known, or nothing at all.
    """
    if found := kind_of(path):
        is_lost = found in (_EMPTY, _ZEROS)
        return DataError(f"{message.rstrip('.')}: it is {found.name}.", hint=(is_lost and hint) or found.remedy)
    return DataError(message, hint=hint)


def _zeros(path: Path, size: int) -> list[bool]:
    with path.open("rb") as file:
        found = []
        for place in range(0, size, max(_LOOK_BYTES, -(-size // _PLACES))):
            file.seek(place)
            found.append(not any(file.read(_LOOK_BYTES)))
        return found


def _error_kind(begin: bytes) -> FileKind | None:
    """Return the kind of a JSON object that a server sends in place of a file."""
    if not begin.lstrip().startswith(b"{") or len(begin) == _LOOK_BYTES:
        return None
    try:
        found = json.loads(begin)
    except (ValueError, RecursionError):
        return None
    said = next((found[key] for key in ("error", "message", "detail", "errors") if found.get(key)), None)
    if said is None or len(found) > 6:
        return None
    return _kind(f"the error of a server ({one_line(json.dumps(said), longest=120)})", _SERVER)


def _folder_kind(folder: Path) -> FileKind | None:
    try:
        names = set(os.listdir(folder))
    except OSError:
        return None
    if any(re.fullmatch(r"consolidated\.\d\d\.pth", name) for name in names):
        return _kind(
            "a model in Meta's own form (consolidated.00.pth)",
            "Convert it to a Hugging Face folder: transformers/models/llama/convert_llama_weights_to_hf.py.",
        )
    if {"snapshots", "blobs"} <= names:
        inside = next((folder / "snapshots").glob("*"), folder / "snapshots/<hash>")
        return _kind("a folder of the hub's cache", f"Name {inside}.")
    return None
