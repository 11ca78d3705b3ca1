"""How many accelerators a run used, which may be fewer than its machine has."""

from __future__ import annotations

from collections.abc import Collection

from mlbench.contracts.statistics import EngineStatistics, InstanceStatistics
from mlbench.errors import IncomparableRunsError
from mlbench.records.node_record import ReachedNodeRecord
from mlbench.records.run_record import RunRecord

_COMPUTES_ONLY = ("/dev/nvidia", "/dev/kfd", "/dev/accel/", "/dev/davinci")
"""Device files of accelerators that are not a desktop's graphics."""
_NO_MODEL = ("", "n/a", "na", "none", "unknown", "-", "0")


def count_used_accelerators(record: RunRecord) -> int:
    """Return how many accelerators a run used; 0: it ran on the CPU of a machine that has none.

    A submission's own number is used. For a run of mlbench the backend reports its devices: an engine uses one
    device, and each of several instances its own, unless they share one. ``devices`` in what the backend observes says
    it otherwise; null there: unknown.

    Raises:
        IncomparableRunsError: the record does not say, or the run left the accelerators of its machine idle.
    """
    found = _count_submitted(record) if record.imported else _count_used(record)
    if isinstance(found, str):
        raise IncomparableRunsError(
            f"run {record.run_id} cannot be placed among published results: {found}.",
            hint="A place is by the accelerator, and systems with accelerators are not ranked among those without.",
        )
    return found


def _count_submitted(record: RunRecord) -> int | str:
    """Return the number that a submission gives, or why there is none."""
    assert record.imported
    count = len(record.environment.accelerators)
    model = str(record.imported.description.get("accelerator_model_name") or "").strip()
    if not record.imported.description:
        return "its tree does not describe the system"
    if not count and model.lower() not in _NO_MODEL:
        return f"its system has {model}, and does not say how many"
    return count


def _count_used(record: RunRecord) -> int | str:
    """Return the number that a run of mlbench used, or why that is unknown."""
    device, here = record.runtime.device, len(record.environment.accelerators)
    files = [file for file in record.environment.devices if file.startswith(_COMPUTES_ONLY)]
    devices = record.runtime.extra.get("devices", record.runtime.devices)  # invalid values are in extra
    if devices is not None:
        return devices if isinstance(devices, int) and devices > 0 else "its backend does not report its device"
    if device == "cpu" or (device is None and not here and not files):
        if here or files:
            return f"it ran on the CPU of a machine with accelerators ({_join_names(record, files)})"
        return 0
    named = {each.device for each in record.engine.by_instance if each.device}
    if device is None and here != 1 and not named:
        return f"its backend does not say how many of the machine's accelerators it used ({_join_names(record, files)})"
    return _count_by_instances(record, here, named)


def _count_by_instances(record: RunRecord, here: int, named: Collection[str]) -> int | str:
    """Return how many the instances used, of those that are here: those that were named, one together, or one each.

    Of several nodes it is the sum of what their instances used.
    """
    if record.nodes:
        return sum(map(_count_on_node, record.nodes, record.engine.by_instance))
    if slices := sum(name.startswith("MIG-") for name in named):
        return f"it used {slices} slices of GPUs (MIG)"
    if named or _is_shared(record):
        return len(named) or 1
    return _one_each(record.engine, here)


def _count_on_node(node: ReachedNodeRecord, did: InstanceStatistics) -> int:
    return _one_each(did.counted or EngineStatistics(), len(node.node.environment.accelerators))


def _one_each(engine: EngineStatistics, here: int) -> int:
    used = engine.instances or 1
    return min(used, here) if here else used


def _is_shared(record: RunRecord) -> bool:
    """Return whether all instances were given one device by its number: ``cuda:0``."""
    setting = record.settings.get("backend.device")
    return setting is not None and isinstance(setting.value, str) and ":" in setting.value


def _join_names(record: RunRecord, files: list[str]) -> str:
    names = [each.name for each in record.environment.accelerators] or files
    return ", ".join(dict.fromkeys(names))
