"""Settings and their descriptions, as lines for a terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlbench.settings.descriptions import SettingDescription, SettingGroup

INTRODUCTION = """# All settings

<!-- Written by `mlbench settings --markdown`, from the docstrings of the dataclasses that the settings fill. -->

Each is set with `--set KEY=VALUE`, in a suite file, or in this machine's settings file; [layers](running.md#settings)
say which one wins.
`mlbench settings WORKLOAD BACKEND` prints the values that a run would use, and `mlbench settings --explain KEY` all
that is known of one key. One that is said to run code, to name a file or a secret, or to open an address is only the
user's to set: `mlbench replay`, `audit` and `verify` do not take it from a record, nor `mlbench serve` from a client,
unless they are started with `--trust` or the same value is given.
"""


def description_line(setting: SettingDescription) -> str:
    """Return the first sentence about a setting, and its allowed values."""
    takes = "; ".join(filter(None, (setting.values, setting.does)))
    return f"{plain_words(setting.summary)} [{takes}]".strip()


def plain_words(text: str) -> str:
    """Return a docstring without code marks."""
    return text.replace("``", "").replace("`", "")


def settings_markdown(groups: Iterable[SettingGroup]) -> str:
    """Return a page of all settings, a list for each dataclass."""
    return "\n".join([INTRODUCTION, *(line for group in groups for line in _group_lines(group))])


def _group_lines(group: SettingGroup) -> Iterator[str]:
    yield f"## {group.reader[0].upper()}{group.reader[1:]}"
    yield ""
    yield f"Of `{group.source}`."
    yield ""
    for setting in group.settings:
        facts = filter(None, (setting.values, f"default `{setting.default}`", setting.does))
        yield f"- `{setting.key}`: {'; '.join(facts)}."
        yield f"  {setting.text.replace('``', '`')}"
    yield ""
