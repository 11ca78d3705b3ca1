"""A tree's description of a system and an implementation, as fields of a run record.

Only what needs no guess is translated; the description itself is kept beside it, whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from mlbench.contracts.runtime_facts import RuntimeFacts
from mlbench.records.environment import Allowance, Environment
from mlbench.records.machine.accelerators import Accelerator
from mlbench.records.machine.cpu import Cpu

UNKNOWN = "unknown"

_LONGEST_COUNT = 4
"""Digits in a number of nodes, of processors or cores in one, of accelerators."""

_MOST_OF_A_SYSTEM = 1_000_000
"""Cores or accelerators of all its nodes; each accelerator is listed."""


def environment_of(owner: str, description: Mapping[str, object]) -> Environment:
    """Return the machine that a submitter describes; missing facts are unknown.

    Args:
        owner: submitter and system, which identify the machine.
        description: of the system; may be empty.
    """
    nodes = _count(description, "number_of_nodes")
    sockets = _product(nodes, _count(description, "host_processors_per_node"))
    accelerators = _product(nodes, _count(description, "accelerators_per_node")) or 0
    return Environment(
        machine=hashlib.sha256(owner.encode()).hexdigest()[:12],
        cpu=Cpu(
            model=_text(description, "host_processor_model_name"),
            architecture=UNKNOWN,
            sockets=sockets,
            cores=_product(sockets, _count(description, "host_processor_core_count")),
            threads=None,
            numa_nodes=None,
            flags=[],
            is_virtual=None,
            governor=None,
            turbo=None,
        ),
        memory_bytes=None,
        allowance=Allowance(threads=None, cpu_quota=None, memory_bytes=None, container=None),
        accelerators=[_accelerator(_text(description, "accelerator_model_name"))] * accelerators,
        devices=[],
        os=_text(description, "operating_system"),
        kernel=UNKNOWN,
        libc=UNKNOWN,
        python=UNKNOWN,
        load_average=None,
        libraries={},
    )


def runtime_of(description: Mapping[str, object]) -> RuntimeFacts:
    """Return the software that a submitter names; versions are part of free text there."""
    names = ("framework", "other_software_stack")
    return RuntimeFacts(extra={name: str(description[name]) for name in names if description.get(name)})


def _accelerator(name: str) -> Accelerator:
    return Accelerator(
        name=name, memory_bytes=None, driver=UNKNOWN, power_limit_w=None, max_clock_mhz=None, ecc=None, mig=None
    )


def _text(description: Mapping[str, object], key: str) -> str:
    value = description.get(key)
    return value.strip() if isinstance(value, str) and value.strip() else UNKNOWN


def _count(description: Mapping[str, object], key: str) -> int | None:
    """Return a number that some write as text; None for ``N/A``, whatever else is none, and more than there can be."""
    text = str(description.get(key, "")).strip()
    return int(text) if text.isdecimal() and len(text) <= _LONGEST_COUNT else None


def _product(one: int | None, other: int | None) -> int | None:
    product = None if one is None or other is None else one * other
    return product if product is None or product <= _MOST_OF_A_SYSTEM else None
