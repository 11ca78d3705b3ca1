"""Lanes: parts of a machine, each with cores and perhaps a device of its own, on which runs are measured side by side.

A lane is used by one thread, which is bound to the lane's cores: processes that it starts inherit them, and so does
what it observes of the machine. Linux binds threads, so that the main thread keeps all cores.

Sources: sched_setaffinity(2); Linux, Documentation/ABI/testing/sysfs-devices-system-cpu (cache/index*).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from mlbench.errors import UsageError
from mlbench.execution.cores import SYSTEM, Core, core_groups, parse_processors, physical_cores
from mlbench.execution.devices import Device, bridges_of, environment_of, near_cores, own_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A part of the machine."""

    number: int
    """Number of the lane, from 1."""
    of: int
    """Number of lanes."""
    cores: tuple[Core, ...]
    """Physical cores that no other lane has."""
    device: Device | None
    """A GPU, or a slice of one, that no other lane has; None: this machine has none that runs could use."""
    free_bytes: int
    """Its share of the memory that was free before anything ran."""

    @property
    def processors(self) -> tuple[int, ...]:
        """Return Linux's numbers of its hardware threads."""
        return tuple(sorted(number for core in self.cores for number in core.processors))

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables by which its processes see its device alone; none without one."""
        return environment_of(self.device.name) if self.device else {}

    def bind_thread(self) -> None:
        """Keep this thread, and processes that it starts from now on, on the lane's cores."""
        os.sched_setaffinity(0, self.processors)

    def strayed(self, pids: Sequence[int]) -> set[int]:
        """Return the processors outside of the lane that some processes may use; those of processes gone are none."""
        found = set[int]()
        for pid in pids:
            try:
                found |= os.sched_getaffinity(pid)
            except OSError:
                continue
        return found - set(self.processors)


def make_lanes(count: int, *, with_devices: bool) -> tuple[Lane, ...]:
    """Return so many lanes: cores of the devices' NUMA nodes where these are known, else equal parts of all cores.

    Args:
        count: at least 2.
        with_devices: whether each lane is to have a GPU or a slice of one: the first of those that this process has.

    Raises:
        UsageError: there are fewer devices or cores.
    """
    cores = physical_cores()
    devices = own_devices() if with_devices else ()
    if with_devices and count > len(devices):
        raise UsageError(
            f"--parallel is {count}, and this process may use {_spell(len(devices), 'device')}.",
            hint="A lane has a GPU, or a slice of one, of its own.",
        )
    if count > len(cores):
        raise UsageError(
            f"--parallel is {count}, and this process may use {_spell(len(cores), 'physical core')}.",
            hint="A lane has at least one core of its own.",
        )
    near = near_cores(cores, [each.address for each in devices[:count]]) if with_devices else None
    free_bytes = psutil.virtual_memory().available // count
    return tuple(
        Lane(
            number=place + 1,
            of=count,
            cores=tuple(part),
            device=devices[place] if with_devices else None,
            free_bytes=free_bytes,
        )
        for place, part in enumerate(near or core_groups(cores, count))
    )


def shared_parts(lane: Lane, other: Lane) -> Iterator[str]:
    """Yield resources other than cores and devices that two lanes share: they can slow each other down there."""
    if lane.device and other.device:
        if lane.device.address == other.device.address:
            yield f"GPU {lane.device.address}"
        else:
            yield from (f"PCIe bridge {name}" for name in _common_bridge(lane.device, other.device))
    for node in sorted({core.node for core in lane.cores} & {core.node for core in other.cores}):
        yield f"memory of NUMA node {node}"
    if not _with_cache(lane.processors).isdisjoint(other.processors):
        yield "last-level cache"


def _common_bridge(device: Device, other: Device) -> Sequence[str]:
    """Return the bridge nearest to two devices that the traffic of both passes; none below the root."""
    theirs = set(bridges_of(other.address))
    return [name for name in bridges_of(device.address) if name in theirs][-1:]


def _with_cache(processors: Sequence[int]) -> set[int]:
    """Return the processors that share the last-level cache of one of these, with themselves."""
    found = set(processors)
    for number in processors:
        indexes = sorted((SYSTEM / f"cpu{number}" / "cache").glob("index*"), key=_level)
        if indexes:
            found |= _listed(indexes[-1] / "shared_cpu_list")
    return found


def _level(index: Path) -> int:
    try:
        return int((index / "level").read_text())
    except (OSError, ValueError):
        return 0


def _listed(file: Path) -> frozenset[int]:
    try:
        return parse_processors(file.read_text())
    except (OSError, ValueError):
        return frozenset()


def _spell(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
