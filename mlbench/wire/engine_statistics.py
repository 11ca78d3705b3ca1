"""Engine statistics as JSON values: how a record holds them, and how they travel between processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from functools import cache
from typing import Any

from mlbench.contracts.statistics import BatchStatistics, EngineStatistics, GenerationStatistics, InstanceStatistics
from mlbench.system.documents import JsonObject
from mlbench.wire.json_values import value_of_json

_KINDS: Mapping[str, type[EngineStatistics]] = {
    "generation": GenerationStatistics,
    "batch": BatchStatistics,
    "engine": EngineStatistics,
}
"""The classes by the name that a record has for each; what another is made from comes later."""

_KIND = "kind"
_COMMON = frozenset(each.name for each in fields(EngineStatistics))
_APART = frozenset(("by_instance", "extra"))


def statistics_to_json(statistics: EngineStatistics) -> dict[str, Any]:
    """Return statistics as one JSON object, with their ``kind``; what was not counted is left out.

    Their ``extra`` stands beside the fields, but for names that fields of any kind have: these are in an object
    ``extra``. The values are as the engine counted them: whether JSON can hold them is for the caller to see.

    Raises:
        TypeError: an engine returned something else.
    """
    if not isinstance(statistics, EngineStatistics):
        raise TypeError(f"Engine.statistics returned a {type(statistics).__name__}, not EngineStatistics")
    found: dict[str, Any] = {_KIND: next(name for name, kind in _KINDS.items() if isinstance(statistics, kind))}
    for name in [each.name for each in fields(statistics) if each.name not in _APART]:
        value = getattr(statistics, name)
        if value is not None and (name not in _COMMON or value not in ("", {})):
            found[name] = _plain(value)
    if statistics.by_instance:
        found["by_instance"] = [
            {
                "processors": list(each.processors),
                **({"device": each.device} if each.device else {}),
                **(statistics_to_json(each.counted) if each.counted else {"ended": each.ended}),
            }
            for each in statistics.by_instance
        ]
    reserved = _reserved_names()
    beside = {name: value for name, value in statistics.extra.items() if name not in reserved}
    apart = {name: value for name, value in statistics.extra.items() if name in reserved}
    return found | beside | ({"extra": apart} if apart else {})


def statistics_from_json(values: JsonObject) -> EngineStatistics:
    """Return the statistics in a JSON object, of the class that its ``kind`` says.

    Older records have no kind: there an object with a name of `BatchStatistics` or `GenerationStatistics` is one of
    these. What has another form than the field of its name is kept in ``extra``: an older mlbench, or a plugin, may
    have meant something else by it.
    """
    from pydantic import ValidationError

    stated = _stated_kind(values)
    kind = stated or _kind_by_names(values)
    names = _own_names(kind) | _COMMON - _APART
    known = {name: value for name, value in values.items() if name in names}
    try:
        found = value_of_json(kind, known)
    except ValidationError as error:
        known = {name: known[name] for name in known.keys() - {each["loc"][0] for each in error.errors()}}
        found = value_of_json(kind, known)
    instances = _instances_from_json(values.get("by_instance"))
    apart = values["extra"] if stated and isinstance(values.get("extra"), dict) else {}
    is_read = {"by_instance": bool(instances), "extra": bool(apart), _KIND: stated is not None}
    beside = {name: value for name, value in values.items() if name not in known and not is_read.get(name)}
    return replace(found, by_instance=instances, extra=beside | apart)


def _stated_kind(values: JsonObject) -> type[EngineStatistics] | None:
    """Return the class that a JSON object names; None of an older one, which has none or another thing by that name."""
    name = values.get(_KIND)
    return _KINDS.get(name) if isinstance(name, str) else None


def _kind_by_names(values: JsonObject) -> type[EngineStatistics]:
    return next((kind for kind in _KINDS.values() if not _own_names(kind).isdisjoint(values)), EngineStatistics)


@cache
def _reserved_names() -> frozenset[str]:
    """Return the names that mean something in the JSON object, whichever kind it is of."""
    return frozenset(each.name for kind in _KINDS.values() for each in fields(kind)) | {_KIND, "processors", "ended"}


def _own_names(kind: type[EngineStatistics]) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind)) - _COMMON


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key) if isinstance(key, int) else key: each for key, each in value.items()}
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _device(values: JsonObject) -> str:
    device = values.get("device")
    return device if isinstance(device, str) else ""


def _instances_from_json(values: object) -> tuple[InstanceStatistics, ...]:
    """Return the instances' statistics; none where the values have another form."""
    found = []
    for each in values if isinstance(values, list) else []:
        match each:
            case {"processors": list(processors), "ended": str(ended)}:
                found.append(InstanceStatistics(processors=processors, device=_device(each), ended=ended))
            case {"processors": list(processors)}:
                device = _device(each)
                own = {"processors"} | ({"device"} if device else set())
                counted = statistics_from_json({name: value for name, value in each.items() if name not in own})
                found.append(InstanceStatistics(processors=processors, device=device, counted=counted))
            case _:
                return ()
    return tuple(found)
