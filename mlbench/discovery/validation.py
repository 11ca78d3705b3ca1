"""Reads what commands need from a plugin's objects, and checks it against the contract before it is used."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from mlbench.contracts.backend import Backend, Probe
from mlbench.contracts.graph import Precision
from mlbench.contracts.hookspecs import OWN_COMMANDS
from mlbench.contracts.load_pattern import LOAD_PATTERNS
from mlbench.contracts.power import AUTO, NONE, PowerMeter
from mlbench.contracts.rules import Rules
from mlbench.contracts.scenario import ComparedBy, Scenario
from mlbench.contracts.workload import Workload
from mlbench.errors import PluginError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_UNITS = ("ns", "samples/s")


def check_list(brought: object, hook: str) -> Sequence[object]:
    """Return a hook's result; raises `PluginError` if it is not a list."""
    _demand(isinstance(brought, list | tuple), f"{hook} returned {_kind_of(brought)}; return a list")
    return tuple(typing.cast(Sequence[object], brought))


def check_plugin_name(thing: object, kind: type) -> str:
    """Return the name of an object from a plugin, after checking all that commands need from it.

    Raises:
        PluginError: it is not of that kind, or breaks its contract; the message says how.
        BaseException: the plugin's code raised it.
    """
    name = name_of(thing, kind)
    _CHECKS[kind](thing)
    return name


def name_of(thing: Any, kind: type) -> str:
    """Return the name of an object from a plugin; raises as `check_plugin_name`."""
    _demand(not isinstance(thing, type), f"brings {_kind_of(thing)}; return an instance of it")
    _demand(isinstance(thing, kind), f"brings {_kind_of(thing)}, which is not a {kind.__name__}")
    name = thing.name
    _demand(type(name) is str, f"brings a {kind.__name__} whose name is {_kind_of(name)}, not text")
    _demand(
        _NAME.fullmatch(name) is not None,
        f"brings a {kind.__name__} called {name[:80]!r}; a name has up to 64 letters, digits, '_', '.', '+' and '-'",
    )
    return str(name)


def check_probe_result(probe: object) -> Probe:
    """Return what `Backend.probe` returned, as plain values; raises as `check_plugin_name`."""
    if not isinstance(probe, Probe):
        raise PluginError(f"probe() returned {_kind_of(probe)}, no Probe")
    _demand(type(probe.is_available) is bool, f"Probe.is_available is {_kind_of(probe.is_available)}")
    _demand(isinstance(probe.rank, int), f"Probe.rank is {_kind_of(probe.rank)}")
    precisions = tuple(Precision(each) for each in _texts(probe.precisions, "Probe.precisions"))
    _demand(bool(precisions) or not probe.is_available, "Probe.precisions is empty")
    versions = probe.versions
    _demand(isinstance(versions, Mapping), f"Probe.versions is {_kind_of(versions)}")
    return Probe(
        is_available=probe.is_available,
        reason=_text(probe.reason, "Probe.reason"),
        install=_text(probe.install, "Probe.install"),
        devices=_texts(probe.devices, "Probe.devices"),
        precisions=precisions or (Precision.FP32,),
        versions={_text(name, "Probe.versions"): _text(versions[name], "Probe.versions") for name in versions},
        rank=int(probe.rank),
    )


def check_reason(reason: object) -> str:
    """Return what `PowerMeter.probe` returned; raises as `check_plugin_name`."""
    return _text(reason, "what probe() returned")


def _check_backend(backend: Any) -> None:
    _text(backend.title, "title")
    _check_options(backend.options)
    _check_tuning(backend.tuning)


def _check_workload(workload: Any) -> None:
    from mlbench.rules.own import rules_of

    _text(workload.title, "title")
    if not isinstance(workload.rules, Rules):
        _text(workload.rules, "rules")
    rules_of(workload)
    _demand(type(workload.is_default) is bool, f"is_default is {_kind_of(workload.is_default)}")
    limit_ms = workload.mini_server_latency_ms
    _demand(limit_ms is None or type(limit_ms) is int, f"mini_server_latency_ms is {_kind_of(limit_ms)}")
    _check_options(workload.options)
    _check_tuning(workload.tuning)


def _check_scenario(scenario: Any) -> None:
    for field in ("title", "result_key"):
        _text(getattr(scenario, field), field)
    for field, known in (("loadgen", tuple(LOAD_PATTERNS)), ("result_unit", _UNITS)):
        value = _text(getattr(scenario, field), field)
        _demand(value in known, f"{field} is {value[:80]!r}, none of {', '.join(known)}")
    percentile = scenario.percentile
    is_share = isinstance(percentile, float) and 0 < percentile < 1
    _demand(percentile is None or is_share, f"percentile is {_kind_of(percentile)}, no share between 0 and 1")
    _demand(type(scenario.early_stopping) is bool, f"early_stopping is {_kind_of(scenario.early_stopping)}")
    compared_by, kinds = scenario.compared_by, typing.get_args(ComparedBy)
    _demand(compared_by in (None, *kinds), f"compared_by is {str(compared_by)[:80]!r}, none of {', '.join(kinds)}")
    _check_latency(scenario)
    _demand(isinstance(scenario.settings, Mapping), f"settings is {_kind_of(scenario.settings)}")
    for key in scenario.settings:
        _text(key, "a key of settings")


def _check_latency(scenario: Scenario) -> None:
    """Check that a scenario reports latencies exactly where LoadGen's pattern has meaningful ones."""
    judged = f"LoadGen's {scenario.loadgen}"
    if scenario.pattern.percentile_setting:
        _demand(scenario.percentile is not None, f"percentile is None, and {judged} judges the latency at one")
        return
    why = f"{judged} sends all samples in one query, whose latencies say nothing"
    _demand(scenario.percentile is None, f"percentile is {scenario.percentile}, and {why}; give None")
    _demand(not scenario.early_stopping, f"early_stopping is True, and {why}; give False")
    _demand(scenario.compared_by != "latency", f"compared_by is 'latency', and {why}; give 'result'")


def _check_power_meter(meter: Any) -> None:
    _text(meter.title, "title")
    _demand(type(meter.covers_machine) is bool, f"covers_machine is {_kind_of(meter.covers_machine)}")
    _demand(meter.name not in (AUTO, NONE), f"a power meter cannot be called {meter.name!r}")


def _check_command(command: Any) -> None:
    _demand(command.name not in OWN_COMMANDS, f"mlbench has a command {command.name!r} itself")
    _text(command.get_short_help_str(), "the short help")


def _check_options(options: object) -> None:
    _demand(
        dataclasses.is_dataclass(options) and not isinstance(options, type),
        f"options is {_kind_of(options)}, no instance of a dataclass",
    )
    typing.get_type_hints(type(options), include_extras=True)
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        getattr(options, field.name)


def _check_tuning(file: object) -> None:
    _demand(file is None or isinstance(file, Path), f"tuning is {_kind_of(file)}, no Path")
    _demand(file is None or typing.cast(Path, file).is_file(), f"tuning is {file}, where no file is")


def _text(value: object, what: str) -> str:
    _demand(isinstance(value, str), f"{what} is {_kind_of(value)}, not text")
    return str.__str__(typing.cast(str, value))


def _texts(values: object, what: str) -> tuple[str, ...]:
    _demand(isinstance(values, list | tuple), f"{what} is {_kind_of(values)}; return a tuple")
    return tuple(_text(each, f"one of {what}") for each in typing.cast(Sequence[object], values))


def _kind_of(value: object) -> str:
    """Return what a value is without asking the value."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"a {type(value).__name__}"


def _demand(is_kept: bool, reason: str) -> None:
    if not is_kept:
        raise PluginError(reason)


_CHECKS: Mapping[type, Callable[[Any], None]] = {
    Backend: _check_backend,
    Workload: _check_workload,
    Scenario: _check_scenario,
    PowerMeter: _check_power_meter,
    click.Command: _check_command,
}
