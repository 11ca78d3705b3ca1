"""Facts about a runtime as JSON values: how a record holds them, and how they travel between processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mlbench.contracts.runtime_facts import UNKNOWN, RuntimeFacts
from mlbench.system.documents import JsonObject

_MEMORY = "device_peak_memory_bytes"


def runtime_to_json(facts: RuntimeFacts) -> JsonObject:
    """Return facts as one JSON object, their ``extra`` beside the fields; what was not said is left out.

    The values are as the backend gave them: whether JSON can hold them is for the caller to see.

    Raises:
        TypeError: a backend returned something else.
    """
    if not isinstance(facts, RuntimeFacts):
        raise TypeError(f"Backend.observe returned a {type(facts).__name__}, not RuntimeFacts")
    found: dict[str, Any] = {} if facts.device is None else {"device": facts.device}
    if facts.devices is not None:
        found["devices"] = None if facts.devices == UNKNOWN else facts.devices
    if facts.compiled is not None:
        found["compiled"] = facts.compiled
    if facts.device_peak_memory_bytes is not None:
        found[_MEMORY] = facts.device_peak_memory_bytes
    return found | dict(facts.extra)


def runtime_from_json(values: JsonObject) -> RuntimeFacts:
    """Return the facts that a JSON object holds; what has another form than the field of its name is in ``extra``."""
    device, devices, compiled = values.get("device"), values.get("devices"), values.get("compiled")
    memory = values.get(_MEMORY)
    is_of_field = {
        "device": isinstance(device, str),
        "devices": "devices" in values and (devices is None or isinstance(devices, int)),
        "compiled": isinstance(compiled, str),
        _MEMORY: type(memory) is int and memory >= 0,
    }
    known = {name for name, is_known in is_of_field.items() if is_known}
    return RuntimeFacts(
        device=device if "device" in known else None,
        devices=(UNKNOWN if devices is None else devices) if "devices" in known else None,
        compiled=compiled if "compiled" in known else None,
        device_peak_memory_bytes=memory if _MEMORY in known else None,
        extra={name: value for name, value in values.items() if name not in known},
    )


def merge_runtimes(parts: Sequence[RuntimeFacts]) -> RuntimeFacts:
    """Return the facts that all instances agree on; the others, where there are any, as a list ``by_instance``.

    Memory of devices is added up, where all know theirs: each process holds its own.
    """
    values = [runtime_to_json(replace(part, device_peak_memory_bytes=None)) for part in parts]
    first = values[0] if values else {}
    same = {name: value for name, value in first.items() if all(each.get(name) == value for each in values)}
    differing = [{name: value for name, value in each.items() if name not in same} for each in values]
    memory = [part.device_peak_memory_bytes for part in parts]
    held = {_MEMORY: sum(map(int, filter(None, memory)))} if memory and None not in memory else {}
    return runtime_from_json({**same, **held, **({"by_instance": differing} if any(differing) else {})})
