"""Settings in layers, `LAYERS`: a later layer overrides an earlier one. Each setting knows its layer.

A setting is named ``load.<field>``, ``execution.<field>``, ``backend.<field>`` or ``workload.<field>``, after the
dataclass that it fills: `LoadSettings`, `EnginePlan`, and the options of the backend and of the workload. Workloads,
backends and the machine suggest values in TOML files of one form; an entry applies if all its conditions match, and
later ones override earlier ones:

    [[settings]]
    when = { workload = "bert", scenario = "Server" }
    execution.max_wait_us = 2000

Conditions are ``workload``, ``backend``, ``scenario``, ``round``, ``profile``, ``tier``, ``precision`` and ``memory``
(``host`` or ``device``: where the backend computes, by its options in entries without this condition). `mlbench tune`
saves such a file too, with a table ``found`` in each entry about the search: an entry that was found under the user's
own limits applies to runs with the same limits, and one without limits to runs without.

The machine's file may have a table ``[defaults]``: values of command-line options that are not given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from mlbench.contracts.backend import EnginePlan
from mlbench.contracts.guarded import guard_of_option
from mlbench.contracts.rules import DEFAULT_ROUND
from mlbench.contracts.scenario import LoadSettings
from mlbench.contracts.workload import Memory
from mlbench.errors import UsageError, is_unicode
from mlbench.system.documents import is_file, read_toml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from mlbench.contracts.backend import Backend
    from mlbench.contracts.scenario import Scenario
    from mlbench.contracts.workload import Workload

LAYERS = ("default", "scenario", "workload", "backend", "data", "tune", "system", "suite", "command line")
"""Where settings come from; a later layer overrides an earlier one."""

SET_FOR_RUN = ("suite", "command line")
"""Layers of settings that a user gave for these very runs."""

CORE_TEMPLATES: Mapping[str, DataclassInstance] = {"load": LoadSettings(), "execution": EnginePlan()}
"""Dataclasses that a run's settings fill, with defaults, by prefix; backends and workloads add theirs."""

LIMITS = ("latency_limit_ms", "ttft_limit_ms", "tpot_limit_ms")
"""Limits under ``load``: a rate that was found under one of them is for runs with the same limit."""

CONDITIONS = ("workload", "backend", "scenario", "round", "profile", "tier", "precision", "memory")

DEFAULTS: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("backend", "tier", "precision", "round"), str),
    **dict.fromkeys(("margin", "accuracy-margin"), (int, float)),
}
"""Options that the machine's settings file may have defaults for, with the types of these."""

_FORMS: Mapping[str, Callable[[Any], str]] = {
    "bool_parsing": lambda error: "true, false",
    "literal_error": lambda error: error["ctx"]["expected"].replace("'", ""),
}
"""Allowed values, by the kind of pydantic's error."""

_OWN_FLAGS = {"execution.precision": "--precision"}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and the layer it came from."""

    value: Any
    layer: str
    file: Path | None = None
    """Its settings file, if the layer has one."""
    replaced: Setting | None = None
    """The setting without this layer."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a run, by key."""

    by_key: Mapping[str, Setting]

    @classmethod
    def of_plain(cls, plain: Mapping[str, object]) -> Settings:
        """Return settings from `plain`'s values, without their layers; `fill` restores their types."""
        return cls({key: Setting(value, "") for key, value in plain.items()})

    def plain(self) -> dict[str, Any]:
        """Return each value in JSON form."""
        from pydantic_core import to_jsonable_python

        return {key: to_jsonable_python(setting.value) for key, setting in self.by_key.items()}

    def fill(self, prefix: str, template: Any) -> Any:
        """Return the dataclass instance ``template`` with the values of the settings that start with ``prefix``."""
        from pydantic import TypeAdapter

        values = {
            key.removeprefix(f"{prefix}."): TypeAdapter(wanted).validate_python(self.by_key[key].value)
            for key, (wanted, _) in fields_of({prefix: template})
            if key in self.by_key
        }
        return dataclasses.replace(template, **values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConditions:
    """The facts of a run that conditions of a settings file match."""

    workload: Workload
    backend: Backend
    scenario: Scenario
    profile: str
    tier: str
    precision: str
    round: str = DEFAULT_ROUND
    memory: Memory = Memory.HOST

    def fulfil(self, conditions: Mapping[str, str]) -> bool:
        """Return whether all conditions match."""
        return all(_format_choice(getattr(self, key)) == wanted for key, wanted in conditions.items())


def _format_choice(value: object) -> object:
    """Return the name of a plugin or a choice in a settings file."""
    return value if isinstance(value, str) else getattr(value, "name", value)


def resolve_settings(  # noqa: PLR0913 - one for each layer
    run_conditions: RunConditions,
    *,
    tuned_file: Path | None = None,
    system_file: Path | None = None,
    data: Mapping[str, object] = {},
    suite: Mapping[str, object] = {},
    command_line: Mapping[str, object] = {},
) -> Settings:
    """Return every setting of a run, the highest layer's value for each.

    Raises:
        UsageError: a setting is unknown, of the wrong type or out of range, in whichever layer; the message names it.
    """
    workload, backend, scenario = run_conditions.workload, run_conditions.backend, run_conditions.scenario
    fields = dict(fields_of({**CORE_TEMPLATES, "backend": backend.options, "workload": workload.options}))
    settings = {key: Setting(default, "default") for key, (_, default) in fields.items()}
    layers = [_Layer(f"scenario {scenario.name}", scenario.settings)]
    files = [(f"workload {workload.name}", workload.tuning), (f"backend {backend.name}", backend.tuning)]
    layers += [layer for owner, each in files if each for layer in _layers_of(each, owner, run_conditions)]
    layers += [_Layer("data", data)]
    for name, file in (("tune", tuned_file), ("system", system_file)):
        if file and is_file(file):
            layers += _layers_of(file, f"{name} {file}", run_conditions)
    layers += [_Layer("suite", suite), _Layer("command line", command_line)]
    limits = _limits_of(value for layer in layers for value in layer.values.items())
    layers = [each for each in layers if each.limits is None or each.limits == limits]
    for layer in layers:
        for key, value in layer.values.items():
            checked = _check_value(key, value, fields, layer.name)
            settings[key] = Setting(checked, layer.name, layer.file, settings[key])
    return Settings(settings)


def restore_settings(stored: Mapping[str, Setting], backend: Backend, workload: Workload) -> Settings:
    """Return the settings of an earlier run; newer settings have their defaults.

    Values stay as they are stored, so that the settings of two runs are equal; `Settings.fill` restores their types.

    Raises:
        UsageError: a setting no longer exists, or no longer takes its value; the message names it.
    """
    fields = dict(fields_of({**CORE_TEMPLATES, "backend": backend.options, "workload": workload.options}))
    for key, each in stored.items():
        _check_value(key, each.value, fields, each.layer)
    return Settings({**{key: Setting(default, "default") for key, (_, default) in fields.items()}, **stored})


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWord:
    """The user's permission for a document that someone else may have written."""

    trusts: bool = False
    """Whether its settings have the rights of the user's own."""
    overrides: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Settings that the user gives; they must equal the document's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardedSetting:
    """A setting that only the user may set."""

    key: str
    does: str
    """The reason: ``runs code``."""
    allowed: Sequence[Any]
    """Values that anyone may give it, in JSON form: the default, and the value in force here."""


def refuse_foreign(document: str, values: Mapping[str, object], guards: Iterable[GuardedSetting], *, hint: str) -> None:
    """Refuse settings of someone else's document that run code, name a file or a secret, or open an address.

    Args:
        document: its name for the message: ``run 2026...``.
        values: its settings in JSON form.
        guards: of `guards_of`.
        hint: how the user can allow them.

    Raises:
        UsageError: it sets one to another value; the message names it.
    """
    found = {
        f"{each.key} is {values[each.key]!r}, which {each.does}": None
        for each in guards
        if each.key in values and values[each.key] not in each.allowed
    }
    if found:
        raise UsageError(f"{document} needs your permission: {'; '.join(found)}.", hint=hint)


def guards_of(templates: Iterable[tuple[str, Any]], own: Mapping[str, object]) -> Iterator[GuardedSetting]:
    """Yield each guarded field of dataclass instances.

    Args:
        templates: the instances, each with its prefix; their values are the defaults.
        own: settings in force here, in JSON form.
    """
    from pydantic_core import to_jsonable_python

    for prefix, template in templates:
        for key, (wanted, default) in fields_of({prefix: template}):
            if guard := guard_of_option(key.rpartition(".")[2], wanted):
                plain = to_jsonable_python(default)
                yield GuardedSetting(key=key, does=guard.does, allowed=[plain, own.get(key, plain)])


def fill_template(template: Any, prefix: str, values: Mapping[str, str]) -> Any:
    """Return the dataclass instance ``template`` with these settings of the command line, named ``<prefix>.<field>``.

    Raises:
        UsageError: a setting is unknown, of the wrong type or out of range.
    """
    layer = "command line"
    fields = dict(fields_of({prefix: template}))
    settings = {key: Setting(_check_value(key, value, fields, layer), layer) for key, value in values.items()}
    return Settings(settings).fill(prefix, template)


def fields_of(templates: Mapping[str, DataclassInstance]) -> Iterator[tuple[str, tuple[Any, Any]]]:
    """Yield key, (type, default) of each field that a setting fills, of dataclass instances by prefix."""
    for prefix, template in templates.items():
        types = typing.get_type_hints(type(template), include_extras=True)
        for field in dataclasses.fields(template):
            key = f"{prefix}.{field.name}"
            if key not in _OWN_FLAGS:
                yield key, (types[field.name], getattr(template, field.name))


def read_defaults(file: Path) -> dict[str, str | float]:
    """Return the table ``[defaults]`` of a settings file by option; empty where there is none.

    Raises:
        UsageError: the file cannot be read, or the table has an option that is not in `DEFAULTS` or a wrong value.
    """
    found = read_toml(file, what="settings file").get("defaults", {}) if is_file(file) else {}
    hint = 'It has lines such as: backend = "onnxruntime".'
    if not isinstance(found, dict):
        raise UsageError(f"{file}: [defaults] is {found!r}.", hint=hint)
    for name, value in found.items():
        if name not in DEFAULTS:
            raise UsageError(f"{file}: [defaults] has an unknown name {name!r}.", hint=f"Use {', '.join(DEFAULTS)}.")
        if isinstance(value, bool) or not isinstance(value, DEFAULTS[name]):
            raise UsageError(f"{file}: {name} in [defaults] is {value!r}.", hint=hint)
    return found


@dataclass(frozen=True, slots=True)
class _Layer:
    """Values by key of their setting, as written."""

    name: str
    values: Mapping[str, object]
    file: Path | None = None
    limits: Mapping[str, float] | None = None
    """Latency limits of the search that found it: it is for runs with the same ones."""


def _limits_of(values: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """Return the limits in settings; wrong ones are detected later, by type."""
    found: dict[str, float] = {}
    for key, value in values:
        name = key.removeprefix("load.")
        if name in LIMITS:
            with contextlib.suppress(TypeError, ValueError):
                found[name] = float(value)
    return {name: limit for name, limit in found.items() if limit}


def _layers_of(file: Path, name: str, run_conditions: RunConditions) -> Iterator[_Layer]:
    """Yield the entries of a settings file that apply, each as a layer of this name."""
    document = read_toml(file, what="settings file")
    try:
        entries = document["settings"] if "defaults" not in document else document.get("settings", [])
        for entry in entries:
            conditions = entry.pop("when", {})
            found = entry.pop("found", None)
            for condition in conditions:
                if condition not in CONDITIONS:
                    raise UsageError(
                        f"{file}: unknown condition {condition!r}.", hint=f"Conditions are {', '.join(CONDITIONS)}."
                    )
            if run_conditions.fulfil(conditions):
                values = {f"{prefix}.{key}": value for prefix, group in entry.items() for key, value in group.items()}
                yield _Layer(name, values, file, None if found is None else _limits_of(found.items()))
    except (KeyError, AttributeError, TypeError):
        raise UsageError(
            f"{file} is not a settings file.", hint="Expected [[settings]] tables such as: execution.batch = 8."
        ) from None


def _check_value(key: str, value: Any, fields: Mapping[str, tuple[Any, Any]], layer: str) -> Any:
    """Return the value as its field's type."""
    from pydantic import TypeAdapter, ValidationError

    if key in _OWN_FLAGS:
        raise UsageError(f"{key} is not a setting ({layer}).", hint=f"Use {_OWN_FLAGS[key]}.")
    if key not in fields:
        from mlbench.discovery import nearest

        raise UsageError(f"unknown setting {key!r} ({layer}).", hint=nearest(key, fields))
    wanted = fields[key][0]
    try:
        found = TypeAdapter(wanted).validate_python(_as_mapping(value) if _is_mapping(wanted) else value)
        reason = _why_unusable(found)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        taken = [_FORMS[each["type"]](each) for each in error.errors() if each["type"] in _FORMS]
        if len(taken) == error.error_count() > 1:
            reason = f"it takes {', '.join(taken)}"
    if reason:
        raise UsageError(f"{key} is {value!r} ({layer}): {reason}.", hint="See `mlbench settings`.")
    return found


def _why_unusable(value: Any) -> str:
    """Return the reason why a value is not allowed for any setting; empty if it is."""
    if isinstance(value, Mapping):
        return next(filter(None, map(_why_unusable, (*value.keys(), *value.values()))), "")
    if isinstance(value, float) and not math.isfinite(value):
        return "Input should be a finite number"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "Input should fit in 64 bits"
    if isinstance(value, str | Path) and not _is_storable(str(value)):
        return "Input should be Unicode without NUL"
    return ""


def _is_storable(text: str) -> bool:
    """Return whether a text is possible in a record and as a path."""
    return "\0" not in text and is_unicode(text)


def _is_mapping(wanted: Any) -> bool:
    kind = typing.get_args(wanted)[0] if typing.get_origin(wanted) is Annotated else wanted
    return typing.get_origin(kind) in (dict, Mapping)


def _as_mapping(value: Any) -> Any:
    """Read ``name=value,name=value``, a mapping's form on the command line; other values are returned as they are."""
    if not isinstance(value, str):
        return value
    pairs = (pair.partition("=") for pair in value.split(",") if pair)
    return {name.strip(): text.strip() if equals else None for name, equals, text in pairs}
