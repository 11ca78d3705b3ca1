"""The settings that ``mlbench tune`` found for this machine: a file of its own beside the machine's settings file.

It is a settings file like others, written by mlbench alone, so that no hand-written line is ever rewritten; what stands
in the hand-written file overrides it. An entry's table ``found`` says how it was found.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlbench.errors import UsageError
from mlbench.records.store.whole_file import write_whole
from mlbench.system.documents import is_file, read_toml
from mlbench.tuner.own_limits import LIMITS

_HEADER = "# Written by `mlbench tune --save`. Put your own settings into the file beside it, which overrides this.\n"
_HINT = "Set MLBENCH_SETTINGS to a place that can be written, or leave out --save."


def check_place(file: Path) -> None:
    """Make sure, before anything is measured, that an entry can be saved.

    Raises:
        UsageError: the folder cannot be made or written, or the file is not a settings file.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = file.with_name(f".{file.name}.{os.getpid()}.partial")
        beside.touch()
        beside.unlink()
    except OSError as error:
        raise UsageError(f"settings file cannot be written: {file}: {error.strerror}.", hint=_HINT) from None
    _entries(file)


def save_entry(file: Path, when: Mapping[str, str], values: Mapping[str, object], found: Mapping[str, object]) -> None:
    """Save settings for runs with these conditions and limits, instead of an older entry for the same; others are kept.

    Args:
        file: of tuned settings.
        when: the conditions.
        values: settings by key, as on a command line.
        found: how they were found: texts, numbers, and lists of texts.

    Raises:
        UsageError: the file cannot be read or written.
    """
    entry: dict[str, Any] = {"when": dict(when)}
    for key, value in values.items():
        prefix, _, name = key.partition(".")
        entry.setdefault(prefix, {})[name] = value
    same = (entry["when"], _limits(found))
    kept = [each for each in _entries(file) if (each.get("when"), _limits(each.get("found", {}))) != same]
    write_whole(file, _HEADER + "".join(_lines([*kept, {**entry, "found": dict(found)}])))


def _limits(found: Mapping[str, object]) -> tuple[Any, ...]:
    return tuple(found.get(name) for name in LIMITS)


def _entries(file: Path) -> list[dict[str, Any]]:
    document = read_toml(file, what="settings file") if is_file(file) or os.path.lexists(file) else {"settings": []}
    entries = document.get("settings")
    if not isinstance(entries, list) or not all(_is_entry(each) for each in entries):
        raise UsageError(f"{file} is not a file of tuned settings.", hint="Move it away.")
    return entries


def _is_entry(entry: object) -> bool:
    return isinstance(entry, dict) and all(isinstance(table, dict) for table in entry.values())


def _lines(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        yield "\n[[settings]]\n"
        for prefix, table in entry.items():
            yield from (f"{_key(prefix)}.{_key(name)} = {_value(value)}\n" for name, value in table.items())


def _key(name: str) -> str:
    is_bare = name and all(each.isascii() and (each.isalnum() or each in "_-") for each in name)
    return name if is_bare else _value(name)


def _value(value: Any) -> str:
    """Return a value as TOML: JSON's texts, numbers, truths and lists are TOML's, but for one control character."""
    with contextlib.suppress(TypeError, ValueError):
        return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("\x7f", "\\u007f")
    return json.dumps(str(value), ensure_ascii=False)
