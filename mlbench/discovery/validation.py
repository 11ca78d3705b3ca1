"""Reads what commands need from a plugin's objects, and checks it against the contract before it is used."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mlbench.contracts.backend import Probe
from mlbench.contracts.guarded import is_closed
from mlbench.contracts.load_pattern import LOAD_PATTERNS
from mlbench.contracts.power import AUTO, NONE
from mlbench.contracts.precision import NumberFormat, Precision
from mlbench.contracts.rules import Rules
from mlbench.contracts.scenario import ComparedBy, Scenario
from mlbench.discovery.hook_results import demand, kind_of, text, texts
from mlbench.errors import PluginError

_UNITS = ("ns", "samples/s")


def check_probe_result(probe: object) -> Probe:
    """Return what `Backend.probe` returned, as plain values; raises as `check_backend`."""
    if not isinstance(probe, Probe):
        raise PluginError(f"probe() returned {kind_of(probe)}, not a Probe")
    demand(type(probe.is_available) is bool, f"Probe.is_available is {kind_of(probe.is_available)}")
    demand(isinstance(probe.rank, int), f"Probe.rank is {kind_of(probe.rank)}")
    precisions = tuple(map(_check_precision, texts(probe.precisions, "Probe.precisions")))
    demand(bool(precisions) or not probe.is_available, "Probe.precisions is empty")
    versions = probe.versions
    demand(isinstance(versions, Mapping), f"Probe.versions is {kind_of(versions)}")
    return Probe(
        is_available=probe.is_available,
        reason=text(probe.reason, "Probe.reason"),
        install=text(probe.install, "Probe.install"),
        devices=texts(probe.devices, "Probe.devices"),
        precisions=precisions or (Precision.FP32,),
        number_formats=_check_formats(probe.number_formats),
        versions={text(name, "Probe.versions"): text(versions[name], "Probe.versions") for name in versions},
        rank=int(probe.rank),
    )


def _check_precision(name: str) -> Precision:
    try:
        return Precision(name)
    except ValueError as error:
        raise PluginError(f"Probe.precisions: {error}") from None


def _check_formats(formats: object) -> Mapping[Precision, NumberFormat]:
    demand(isinstance(formats, Mapping), f"Probe.number_formats is {kind_of(formats)}")
    assert isinstance(formats, Mapping)
    for each in formats.values():
        demand(isinstance(each, NumberFormat), f"Probe.number_formats contains {kind_of(each)}, not a NumberFormat")
    return {
        _check_precision(text(name, "Probe.number_formats")): NumberFormat(
            stores=_check_precision(text(each.stores, "NumberFormat.stores")),
            computes=_check_precision(text(each.computes, "NumberFormat.computes")),
        )
        for name, each in formats.items()
    }


def check_reason(reason: object) -> str:
    """Return what the ``probe`` of a power meter or a sensor returned; raises as `check_backend`."""
    return text(reason, "what probe() returned")


def check_backend(backend: Any) -> None:
    """Check all that commands need of a backend.

    Raises:
        PluginError: it breaks its contract; the message says how.
        BaseException: the plugin's code raised it.
    """
    text(backend.title, "title")
    for field in ("computes_answers", "loads_files"):
        demand(type(getattr(backend, field)) is bool, f"{field} is {kind_of(getattr(backend, field))}")
    _check_options(backend.options)
    _check_file(backend.tuning, "tuning")
    _check_preload(backend.preload)


def check_workload(workload: Any) -> None:
    """Check all that commands need of a workload; raises as `check_backend`."""
    from mlbench.rules.round_files import check_rules_name

    text(workload.title, "title")
    if not isinstance(workload.rules, Rules):
        check_rules_name(text(workload.rules, "rules"))
    demand(type(workload.is_default) is bool, f"is_default is {kind_of(workload.is_default)}")
    limit_ms = workload.mini_server_latency_ms
    demand(limit_ms is None or type(limit_ms) is int, f"mini_server_latency_ms is {kind_of(limit_ms)}")
    _check_options(workload.options)
    _check_file(workload.tuning, "tuning")
    _check_file(workload.sources, "sources")
    _check_preload(workload.preload)
    _check_preload(workload.preload_always)
    _check_preload(workload.preload_of_reference)


def check_scenario(scenario: Any) -> None:
    """Check all that commands need of a scenario; raises as `check_backend`."""
    for field in ("title", "result_key"):
        text(getattr(scenario, field), field)
    for field, known in (("loadgen", tuple(LOAD_PATTERNS)), ("result_unit", _UNITS)):
        value = text(getattr(scenario, field), field)
        demand(value in known, f"{field} is {value[:80]!r}, not one of {', '.join(known)}")
    percentile = scenario.percentile
    is_share = isinstance(percentile, float) and 0 < percentile < 1
    demand(percentile is None or is_share, f"percentile is {kind_of(percentile)}, not a share between 0 and 1")
    demand(type(scenario.early_stopping) is bool, f"early_stopping is {kind_of(scenario.early_stopping)}")
    text(scenario.token_result_key, "token_result_key")
    text(scenario.rules, "rules")
    demand(type(scenario.is_beyond_rules) is bool, f"is_beyond_rules is {kind_of(scenario.is_beyond_rules)}")
    compared_by, kinds = scenario.compared_by, typing.get_args(ComparedBy)
    demand(compared_by in (None, *kinds), f"compared_by is {str(compared_by)[:80]!r}, not one of {', '.join(kinds)}")
    _check_latency(scenario)
    demand(isinstance(scenario.settings, Mapping), f"settings is {kind_of(scenario.settings)}")
    for key in scenario.settings:
        text(key, "a key of settings")


def _check_latency(scenario: Scenario) -> None:
    """Check that a scenario reports latencies exactly where LoadGen's pattern has meaningful ones."""
    judged = f"LoadGen's {scenario.loadgen}"
    if scenario.pattern.percentile_setting:
        demand(scenario.percentile is not None, f"percentile is None, and {judged} judges the latency at one")
        return
    why = f"{judged} sends all samples in one query, so its latencies are meaningless"
    demand(scenario.percentile is None, f"percentile is {scenario.percentile}, and {why}; give None")
    demand(not scenario.early_stopping, f"early_stopping is True, and {why}; give False")
    demand(scenario.compared_by != "latency", f"compared_by is 'latency', and {why}; give 'result'")


def check_power_meter(meter: Any) -> None:
    """Check all that commands need of a power meter; raises as `check_backend`."""
    text(meter.title, "title")
    demand(type(meter.covers_machine) is bool, f"covers_machine is {kind_of(meter.covers_machine)}")
    demand(meter.name not in (AUTO, NONE), f"a power meter cannot be called {meter.name!r}")


def check_sensor(sensor: Any) -> None:
    """Check all that commands need of a sensor; raises as `check_backend`."""
    text(sensor.title, "title")


def check_transform(transform: Any) -> None:
    """Check all that commands need of a transform; raises as `check_backend`.

    A record of a stranger names a transform and its options, so these can neither name files nor run code.
    """
    text(transform.title, "title")
    text(transform.checked_on, "checked_on")
    for field in ("changes_answers", "is_closed", "writes_files"):
        demand(type(getattr(transform, field)) is bool, f"{field} is {kind_of(getattr(transform, field))}")
    _check_options(transform.options)
    for name, wanted in typing.get_type_hints(type(transform.options), include_extras=True).items():
        demand(is_closed(wanted), f"option {name} takes any text; take a number, a boolean, or words of a list")
        words = [str(word) for word in typing.get_args(wanted) if isinstance(word, str)]
        demand(not any(set(word) & set(": ") for word in words), f"a word of option {name} has a colon or a space")


def _check_options(options: object) -> None:
    demand(
        dataclasses.is_dataclass(options) and not isinstance(options, type),
        f"options is {kind_of(options)}, not an instance of a dataclass",
    )
    _check_annotations(type(options))  # type: ignore[arg-type]  # mypy doubts that classes have hashes
    for field in dataclasses.fields(options):  # type: ignore[arg-type]
        getattr(options, field.name)


@cache
def _check_annotations(options: type) -> None:
    """Raise where an annotation cannot be resolved. A process discovers the same plugins often, and this takes long."""
    typing.get_type_hints(options, include_extras=True)


def _check_file(file: object, what: str) -> None:
    demand(file is None or isinstance(file, Path), f"{what} is {kind_of(file)}, not a Path")
    demand(file is None or typing.cast(Path, file).is_file(), f"{what} is {file}, which does not exist")


def _check_preload(modules: object) -> None:
    is_sequence = isinstance(modules, Sequence) and not isinstance(modules, str)
    demand(is_sequence, f"preload is {kind_of(modules)}, not a sequence of names")
    for module in typing.cast(Sequence[object], modules):
        name = text(module, "a name in preload")
        demand(all(part.isidentifier() for part in name.split(".")), f"preload has {name[:80]!r}, not a module's name")
