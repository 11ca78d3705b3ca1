"""``mlperf.conf`` and ``user.conf`` of a measurements folder: what LoadGen was configured to do.

A line is ``model.scenario.key = value``, blanks allowed, ``*`` for any model or scenario; one that begins with ``#`` is
a comment. Of each file the first line that fits and has a whole number counts, and ``user.conf`` goes before
``mlperf.conf``. Other lines are passed over, where the official checker breaks off.

Source: submission checker v4.1, ``check_measurement_dir``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mlbench.errors import DataError
from mlbench.submission.tree import MLPERF_CONF, USER_CONF, Entry

_EQUAL_ISSUE = "sample_concatenate_permutation"


def read_equal_issue(entry: Entry, model: str, scenario: str) -> tuple[bool | None, list[tuple[Path, DataError]]]:
    """Return whether LoadGen was configured to send every sample equally often, and which files could not be read.

    Args:
        entry: whose measurements folder is read.
        model: LoadGen's name: ``llama2-70b``.
        scenario: LoadGen's name; the folder's own spelling of it is accepted too.

    Returns:
        None where neither file says.
    """
    scenarios = {"*", scenario, entry.scenario}
    unread: list[tuple[Path, DataError]] = []
    for name in (USER_CONF, MLPERF_CONF):
        file = entry.measurements / name
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            unread.append((file, DataError(f"cannot be read: {error.strerror}.")))
            continue
        values = (
            int(value)
            for of_model, of_scenario, key, value in _settings(text)
            if key == _EQUAL_ISSUE and of_model in {"*", model} and of_scenario in scenarios and value.isdecimal()
        )
        if (value := next(values, None)) is not None:
            return value == 1, unread
    return None, unread


def _settings(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield model, scenario, key and value of each line that has them."""
    for line in text.splitlines():
        packed = "".join(line.split())
        name, sign, value = packed.partition("=")
        parts = name.split(".")
        if sign and len(parts) == 3 and not packed.startswith("#"):
            yield parts[0], parts[1], parts[2], value
