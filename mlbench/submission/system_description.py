"""``systems/<system>.json`` of this machine, as far as the machine says.

Nothing is guessed: a field that the kernel and the drivers do not know is left empty, for a person to fill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from mlbench.records.environment import Environment
from mlbench.records.machine.host_hardware import HostHardware
from mlbench.submission.system_fields import (
    FREE_FIELDS,
    IS_NETWORK,
    MEANINGFUL_FIELDS,
    NETWORK_FIELDS,
    NETWORK_SYSTEM_TYPE,
    is_network_system,
)
from mlbench.version import __version__

NONE = "N/A"
"""Stands for what the machine does not have; an empty field would be refused."""

NETWORK_PROTOCOL = "TCP"

_FRAMEWORKS = {
    "torch": "PyTorch",
    "onnxruntime": "ONNX Runtime",
    "onnxruntime-gpu": "ONNX Runtime",
    "tensorrt": "TensorRT",
    "openvino": "OpenVINO",
    "vllm": "vLLM",
}
_OF_ACCELERATORS = (
    *("accelerator_model_name", "accelerator_memory_capacity", "accelerator_host_interconnect"),
    *("accelerator_interconnect", "accelerator_memory_configuration"),
)


def describe_system(environment: Environment, hardware: HostHardware) -> dict[str, str]:
    """Return all fields of a description, those that a person must fill empty.

    Args:
        environment: of the machine, one node.
        hardware: its other parts.
    """
    fields = dict.fromkeys((*MEANINGFUL_FIELDS, *FREE_FIELDS), "")
    return fields | {
        "number_of_nodes": "1",
        **_processor_fields(environment, hardware),
        **_disk_fields(hardware),
        **_network_fields(hardware),
        **_accelerator_fields(environment),
        **_software_fields(environment),
    }


def describe_network(environment: Environment, hardware: HostHardware) -> dict[str, str]:
    """Return the fields that a system of the network division has beside the others, and what it is for.

    Args:
        environment: of a node.
        hardware: its other parts.
    """
    cards = _network_fields(hardware)
    return dict.fromkeys(NETWORK_FIELDS, "") | {
        IS_NETWORK: "true",
        "system_type": NETWORK_SYSTEM_TYPE,
        "network_protocol": NETWORK_PROTOCOL,
        "nic_sut": cards["host_networking"],
        "number_nic_sut": cards["host_network_card_count"],
        "net_software_stack_sut": sut_network_stack(__version__, environment),
        "net_software_stack_loadgen": loadgen_network_stack(__version__),
    }


def sut_network_stack(version: str, environment: Environment) -> str:
    """Return the software that a node of this version of mlbench sends with."""
    return f"mlbench {version} over TCP of {environment.kernel}"


def loadgen_network_stack(version: str) -> str:
    """Return the software that the LoadGen system sends with."""
    return f"mlbench {version}, LoadGen's QDL over TCP"


def empty_fields(fields: Mapping[str, object]) -> list[str]:
    """Return the fields that must be filled and are not; those of the network division only of such a system."""
    needed = (*MEANINGFUL_FIELDS, *(NETWORK_FIELDS if is_network_system(fields) else ()))
    return [name for name in needed if not fields.get(name)]


def _processor_fields(environment: Environment, hardware: HostHardware) -> Mapping[str, str]:
    cpu = environment.cpu
    per_socket = cpu.cores // cpu.sockets if cpu.cores and cpu.sockets else None
    clock = f"{hardware.max_clock_mhz / 1000:.2f} GHz" if hardware.max_clock_mhz else ""
    return {
        "host_processor_model_name": cpu.model,
        "host_processors_per_node": _count(cpu.sockets),
        "host_processor_core_count": _count(per_socket),
        "host_processor_frequency": clock,
        "host_processor_caches": ", ".join(hardware.caches),
        "host_memory_capacity": f"{environment.memory_bytes / 2**30:.0f} GiB" if environment.memory_bytes else "",
    }


def _disk_fields(hardware: HostHardware) -> Mapping[str, str]:
    total_bytes = sum(disk.size_bytes for disk in hardware.disks)
    return {
        "host_storage_capacity": f"{total_bytes / 1e9:.0f} GB" if total_bytes else "",
        "host_storage_type": _list_kinds([disk.kind for disk in hardware.disks]),
    }


def _network_fields(hardware: HostHardware) -> Mapping[str, str]:
    kinds = []
    for card in hardware.network_cards:
        if card.speed_mbit is None:
            continue
        kinds.append(f"{'InfiniBand' if card.is_infiniband else 'Ethernet'} {card.speed_mbit / 1000:g} Gbit/s")
    return {
        "host_network_card_count": _count(len(hardware.network_cards)),
        "host_networking": _list_kinds(kinds),
    }


def _accelerator_fields(environment: Environment) -> Mapping[str, str]:
    accelerators = environment.accelerators
    if not accelerators:  # a device without a driver that answers is for a person to describe
        is_unknown = environment.devices or environment.accelerator_problem
        return {} if is_unknown else {"accelerators_per_node": "0", **dict.fromkeys(_OF_ACCELERATORS, NONE)}
    memories = [f"{each.memory_bytes / 2**30:.0f} GiB" for each in accelerators if each.memory_bytes]
    clocks = {f"{each.max_clock_mhz:g} MHz" for each in accelerators if each.max_clock_mhz}
    return {
        "accelerators_per_node": str(len(accelerators)),
        "accelerator_model_name": ", ".join(sorted({each.name for each in accelerators})),
        "accelerator_memory_capacity": ", ".join(sorted(set(memories))),
        "accelerator_frequency": ", ".join(sorted(clocks)),
    }


def _software_fields(environment: Environment) -> Mapping[str, str]:
    libraries = environment.libraries
    frameworks = [f"{title} {libraries[name]}" for name, title in _FRAMEWORKS.items() if name in libraries]
    drivers = sorted({f"driver {each.driver}" for each in environment.accelerators if each.driver})
    return {
        "framework": ", ".join(dict.fromkeys(frameworks)),
        "operating_system": environment.os,
        "other_software_stack": ", ".join([environment.kernel, environment.libc, environment.python, *drivers]),
    }


def _list_kinds(kinds: Sequence[str]) -> str:
    """Return what there is, with how often where there are several: ``2x NVMe SSD, HDD``."""
    return ", ".join(kind if count == 1 else f"{count}x {kind}" for kind, count in Counter(kinds).items())


def _count(number: int | None) -> str:
    """Return a number as text, since the checker takes the number 0 for empty; empty: unknown."""
    return "" if number is None else str(number)
