"""Accelerators by the names that CUDA takes, and the cores that are near them.

Sources: CUDA C++ Programming Guide, environment variables (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER); NVIDIA MIG User
Guide, device names and UUIDs; Linux, Documentation/ABI/testing/sysfs-bus-pci (numa_node, local_cpulist).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path

from mlbench.errors import UsageError
from mlbench.execution.cores import Core, parse_processors, parts_of
from mlbench.system.folders import visible_devices
from mlbench.system.nvidia_smi import NVIDIA_SMI, ToolAnswer, ask_nvidia_smi

PCI_DEVICES = Path("/sys/bus/pci/devices")
"""Linux's description of the devices on PCI buses, a folder each."""

_NAME = re.compile(r"\d{1,4}|(GPU|MIG)-[\w/-]+", re.ASCII)
_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_LISTED = re.compile(r"\(UUID: ((?:GPU|MIG)-[\w/-]+)\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU, or a slice of one."""

    name: str
    """nvidia-smi's number of a whole one, the UUID of a slice: ``0``, ``MIG-...``."""
    address: str
    """The GPU's PCI address as Linux spells it: ``0000:65:00.0``."""


def named_devices(text: str) -> tuple[Device, ...]:
    """Return the devices that a setting names as CUDA_VISIBLE_DEVICES does, ``0,MIG-...``; none of an empty one.

    Where that variable is set already, as schedulers do, a number counts among the devices that it names.

    Raises:
        UsageError: a name has another form or comes twice, or this process has no such device.
    """
    if not text.strip():
        return ()
    listed, left = listed_devices(), visible_devices()
    visible = list(listed.values()) if left is None else [listed.get(name) for name in left]
    found: list[Device] = []
    for name in (each.strip() for each in text.split(",")):
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"execution.devices has {name!r}.",
                hint="Expected 0, GPU-... or MIG-..., as `nvidia-smi -L` lists them.",
            )
        if left is not None and name.isdigit():
            device = visible[int(name)] if int(name) < len(visible) else None
        else:
            device = listed.get(name)
        if device is None or device not in visible:
            theirs = "nvidia-smi lists" if left is None else "CUDA_VISIBLE_DEVICES has"
            names = ", ".join(listed if left is None else left) or "none"
            hint = "Name one of these." if listed else "Without NVIDIA's driver leave it out."
            raise UsageError(f"execution.devices has {name}, and {theirs} {names}.", hint=hint)
        if device in found:
            raise UsageError(f"execution.devices has {name} twice.", hint="Instances beyond the devices share them.")
        found.append(device)
    return tuple(found)


def environment_of(device: str) -> Mapping[str, str]:
    """Return the variables by which a process sees one device alone, numbered as nvidia-smi does."""
    return {"CUDA_VISIBLE_DEVICES": device, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def listed_devices() -> Mapping[str, Device]:
    """Return the devices in nvidia-smi's list: GPUs by number and by UUID, slices of them (MIG) by UUID.

    None where there is no such tool, or it does not answer.
    """
    found: dict[str, Device] = {}
    for line in _ask("--query-gpu=index,uuid,pci.bus_id", "--format=csv,noheader"):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 3:
            number, uuid, address = cells
            found[number] = found[uuid] = Device(number, _linux_address(address))
    return found | {each.name: each for each in _slices(found)}


def own_devices() -> tuple[Device, ...]:
    """Return the devices of this process: slices, and GPUs without slices, in nvidia-smi's order.

    Those that CUDA_VISIBLE_DEVICES names, where it is set.
    """
    listed, left = listed_devices(), visible_devices()
    named = listed.values() if left is None else [listed[name] for name in left if name in listed]
    found = tuple(dict.fromkeys(named))
    cut = {each.address for each in listed.values() if _is_slice(each)}
    return tuple(each for each in found if _is_slice(each) or each.address not in cut)


def bridges_of(address: str) -> tuple[str, ...]:
    """Return the PCI bridges between the root and a device, the root's port first; none where Linux does not say."""
    place = (PCI_DEVICES / address).resolve()
    return tuple(each.name for each in reversed(place.parents) if _ADDRESS.fullmatch(each.name))


def near_cores(cores: Sequence[Core], addresses: Sequence[str]) -> list[Sequence[Core]] | None:
    """Return for each device a part of the cores on its NUMA node; devices of one node share its cores out.

    None where the kernel does not say where a device is, or there are too few cores: no core is in two parts.

    Args:
        cores: those that may be used.
        addresses: of the devices, one for each process that is to have cores.
    """
    nodes = [_near_processors(address) for address in addresses]
    if None in nodes or any(one & other for one, other in combinations(set(nodes), 2) if one and other):
        return None
    groups: list[Sequence[Core]] = [()] * len(addresses)
    for node in dict.fromkeys(nodes):
        places = [place for place, each in enumerate(nodes) if each == node]
        near = [core for core in cores if node and node.issuperset(core.processors)]
        for place, part in zip(places, parts_of(near, len(places)), strict=True):
            groups[place] = part
    return groups if all(groups) else None


def _is_slice(device: Device) -> bool:
    return device.name.startswith("MIG-")


def _near_processors(address: str) -> frozenset[int] | None:
    """Return the processors on a device's NUMA node; None where it is on none, or unknown."""
    folder = PCI_DEVICES / address
    try:
        if int((folder / "numa_node").read_text()) < 0:
            return None
        listed = (folder / "local_cpulist").read_text().strip()
        return parse_processors(listed)
    except (OSError, ValueError):
        return None


def _slices(gpus: Mapping[str, Device]) -> Iterator[Device]:
    """Yield the MIG slices, each listed below its GPU."""
    gpu = None
    for line in _ask("-L"):
        for uuid in _LISTED.findall(line):
            if uuid.startswith("GPU-"):
                gpu = gpus.get(uuid)
            elif gpu:
                yield Device(uuid, gpu.address)


def _linux_address(address: str) -> str:
    """Return a PCI address as Linux spells it: nvidia-smi's ``00000000:65:00.0`` is ``0000:65:00.0``."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _ask(*arguments: str) -> Sequence[str]:
    return _answer(shutil.which(NVIDIA_SMI), *arguments)


@cache
def _answer(command: str | None, *arguments: str) -> Sequence[str]:
    """Return a tool's output; it runs once, since it takes about a second and each run of a suite needs it."""
    answer = ask_nvidia_smi(*arguments) if command else ToolAnswer()
    return () if answer.problem else answer.lines
