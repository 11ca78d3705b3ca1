"""Meaning and allowed values of each setting, from the dataclass that it fills: docstrings, types and defaults."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlbench.contracts.guarded import guard_of_option
from mlbench.settings.layers import CORE_TEMPLATES, fields_of
from mlbench.system.field_docs import read_field_docs

if TYPE_CHECKING:
    from mlbench.contracts.backend import Backend
    from mlbench.contracts.workload import Workload

_READERS = {"load": "LoadGen", "execution": "the engine of every backend"}
_NUMBERS = ("integer", "number")
_NO_LIMIT = 2**63
"""Larger limits are those of storage, and are not printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDescription:
    """Meaning and allowed values of a setting."""

    key: str
    text: str
    """Its meaning; empty if its field has no docstring, or the source cannot be read."""
    values: str
    """Allowed values: ``integer, 0 to 1024``."""
    choices: tuple[str, ...]
    """Allowed words, if they can be listed; others may be allowed too."""
    default: str
    does: str = ""
    """Reason why a record or a client may not set it: ``runs code``; empty: they may."""

    @property
    def summary(self) -> str:
        """The first sentence of the text."""
        return first_sentence(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingGroup:
    """The settings that fill one dataclass."""

    reader: str
    """Component that reads them: ``backend pytorch``."""
    source: str
    """The dataclass: ``mlbench.contracts.backend.EnginePlan``."""
    settings: tuple[SettingDescription, ...]


def first_sentence(text: str) -> str:
    """Return a text up to the end of its first sentence, on one line."""
    text = " ".join(text.split())
    return text.partition(". ")[0].removesuffix(".") + "." if text else ""


def describe_group(prefix: str, template: Any, reader: str) -> SettingGroup:
    """Describe the settings that fill a dataclass instance; its values are the defaults."""
    kind = type(template)
    texts = read_field_docs(kind)
    return SettingGroup(
        reader=reader,
        source=f"{kind.__module__}.{kind.__qualname__}",
        settings=tuple(
            _describe(key, wanted, default, " ".join(texts.get(key.removeprefix(f"{prefix}."), "").split()))
            for key, (wanted, default) in fields_of({prefix: template})
        ),
    )


def describe_all(backends: Mapping[str, Backend], workloads: Mapping[str, Workload]) -> list[SettingGroup]:
    """Describe every setting of the core, of these backends and of these workloads; none for those without options."""
    groups = [describe_group(prefix, template, _READERS[prefix]) for prefix, template in CORE_TEMPLATES.items()]
    groups += [describe_group("backend", each.options, f"backend {name}") for name, each in backends.items()]
    groups += [describe_group("workload", each.options, f"workload {name}") for name, each in workloads.items()]
    return [group for group in groups if group.settings]


def _describe(key: str, wanted: Any, default: Any, text: str) -> SettingDescription:
    forms = dict(_forms(wanted))
    takes = " or ".join(sorted(forms, key=lambda form: form.startswith(_NUMBERS)))
    return SettingDescription(
        key=key,
        text=text,
        values=takes or getattr(wanted, "__name__", str(wanted)),
        choices=tuple(word for words in forms.values() for word in words),
        default=format_value(default),
        does=guard.does if (guard := guard_of_option(key.rpartition(".")[2], wanted)) else "",
    )


def format_value(value: Any) -> str:
    """Return a value as one line, in the form of the command line if possible."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{name}={each}" for name, each in value.items()) or "none"
    return " ".join(str(value).split()) or '""'


def _forms(wanted: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the forms of a value except null, and the words among them; nothing for a type without a schema."""
    from pydantic import PydanticUserError, TypeAdapter

    try:
        schema = TypeAdapter(wanted).json_schema()
    except PydanticUserError:
        return
    definitions = schema.get("$defs", {})
    for form in schema.get("anyOf", [schema]):
        found = definitions.get(form.get("$ref", "").rpartition("/")[2], form)
        if found.get("type") != "null":
            yield _form(found), _words(found)


def _words(form: Mapping[str, Any]) -> tuple[str, ...]:
    listed = form.get("enum", [form["const"]] if "const" in form else [])
    return ("true", "false") if form.get("type") == "boolean" else tuple(map(str, listed))


def _form(form: Mapping[str, Any]) -> str:
    """Return the values that a JSON schema allows, in words."""
    if words := _words(form):
        return f"one of {', '.join(words)}" if len(words) > 2 else " or ".join(words)
    kind = str(form.get("type", "any value"))
    if kind == "object":
        return f"NAME={_form(form.get('additionalProperties', {}))},..."
    if kind == "string":
        return "path" if form.get("format") == "path" else "text"
    limits = _range(form)
    return f"{kind}, {limits}" if limits else kind


def _range(form: Mapping[str, Any]) -> str:
    """Return the limits of a number, in words; empty where it has none."""

    def limit(name: str) -> str:
        value = form.get(name)
        is_one = value is not None and math.isfinite(value) and value < _NO_LIMIT
        return f"{value:.12g}" if is_one else ""

    low, high = limit("minimum"), limit("maximum")
    if low and high:
        return f"{low} to {high}"
    parts = (
        low and f"{low} or more",
        high and f"at most {high}",
        (above := limit("exclusiveMinimum")) and f"above {above}",
        (below := limit("exclusiveMaximum")) and f"below {below}",
    )
    return ", ".join(sorted(filter(None, parts), key=lambda part: part.startswith(("at most", "below"))))
