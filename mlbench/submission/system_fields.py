"""The fields of ``systems/<system>.json``.

Source: submission checker v4.1, ``SYSTEM_DESC_REQUIRED_FIELDS`` and what is beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from mlbench.errors import UsageError

MEANINGFUL_FIELDS = (
    *("division", "submitter", "status", "system_name", "system_type", "number_of_nodes"),
    *("host_processor_model_name", "host_processors_per_node", "host_processor_core_count"),
    *("host_memory_capacity", "host_memory_configuration", "host_storage_capacity", "host_storage_type"),
    *("host_networking", "host_network_card_count", "host_networking_topology"),
    *("accelerators_per_node", "accelerator_model_name", "accelerator_memory_capacity"),
    *("accelerator_host_interconnect", "accelerator_interconnect", "accelerator_memory_configuration"),
    *("cooling", "framework", "operating_system", "other_software_stack"),
)
"""They may be neither empty nor null nor the number 0, which counts as empty; the text ``0`` does not."""

FREE_FIELDS = (
    *("system_type_detail", "host_processor_frequency", "host_processor_caches", "host_processor_interconnect"),
    *("accelerator_frequency", "accelerator_interconnect_topology", "accelerator_on-chip_memories"),
    *("hw_notes", "sw_notes"),
)
"""They must be there, and may be empty."""

NETWORK_FIELDS = (
    *("network_type", "network_media", "network_rate", "nic_loadgen", "number_nic_loadgen"),
    *("net_software_stack_loadgen", "network_protocol", "number_connections", "nic_sut", "number_nic_sut"),
    *("net_software_stack_sut", "network_topology"),
)
"""They must be there in a system that is reached over a network."""

POWER_FIELDS = (
    *("power_management", "filesystem", "boot_firmware_version", "management_firmware_version", "other_hardware"),
    *("number_of_type_nics_installed", "nics_enabled_firmware", "nics_enabled_os", "nics_enabled_connected"),
    *("network_speed_mbit", "power_supply_quantity_and_rating_watts", "power_supply_details", "disk_drives"),
    "disk_controllers",
)
"""They are known in advance."""

TEXT_FIELDS = (
    *("hw_notes", "sw_notes", "system_name", "host_processor_model_name", "accelerator_model_name"),
    *("framework", "operating_system"),
)
"""The official checker adds them to other texts, and crashes over anything else."""

IS_NETWORK = "is_network"
"""The field that says, by the text ``true``, that the system is reached over a network."""

NETWORK_SYSTEM_TYPE = "datacenter"
"""What systems that are reached over a network are for. Source: the rules on the network division."""

STATUSES = ("available", "preview", "rdi")
SYSTEM_TYPES = ("datacenter", "edge", "datacenter,edge", "edge,datacenter")


def check_types(file: Path, fields: Mapping[str, object]) -> None:
    """Raise `UsageError` for a value whose type would crash the official checker."""
    for name, value in fields.items():
        if not isinstance(value, str | int) or (name in TEXT_FIELDS and not isinstance(value, str)):
            raise UsageError(f"{file}: {name} is {json.dumps(value)[:80]}.", hint="Write it as text in quotes.")


def is_network_system(fields: Mapping[str, object]) -> bool:
    """Return whether a description says that the system is reached over a network."""
    return str(fields.get(IS_NETWORK, "")).lower() == "true"
