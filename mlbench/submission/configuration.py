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
from mlbench.submission.tree import MLPERF_CONF, USER_CONF, ResultEntry
from mlbench.system.documents import read_text

_EQUAL_ISSUE = "sample_concatenate_permutation"


def read_equal_issue(entry: ResultEntry, model: str, scenario: str) -> tuple[bool | None, list[tuple[Path, DataError]]]:
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
            text = read_text(file, what="LoadGen's configuration", replaces_errors=True)
        except DataError as error:
            unread.append((file, error))
            continue
        values = (
            value.lstrip("0") == "1"
            for of_model, of_scenario, key, value in _settings(text)
            if key == _EQUAL_ISSUE and of_model in {"*", model} and of_scenario in scenarios and value.isdecimal()
        )
        if (value := next(values, None)) is not None:
            return value, unread
    return None, unread


def _settings(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield model, scenario, key and value of each line that has them."""
    for line in text.splitlines():
        packed = "".join(line.split())
        name, sign, value = packed.partition("=")
        parts = name.split(".")
        if sign and len(parts) == 3 and not packed.startswith("#"):
            yield parts[0], parts[1], parts[2], value
