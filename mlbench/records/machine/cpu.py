"""The processor, as Linux's /proc and /sys describe it."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from pathlib import Path

from mlbench.records.stored import Stored
from mlbench.system.processor import flags_of, text_of

FLAGS = (
    *("avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_bf16", "amx_int8", "amx_fp16"),
    *("asimd", "asimddp", "asimdhp", "sve", "sve2", "i8mm", "bf16", "svebf16", "svei8mm", "sme"),
)
"""Instruction sets that decide how fast a model can run; the last line is Arm's."""


class Cpu(Stored):
    """The processor and its clock settings; null where unknown."""

    model: str
    architecture: str
    sockets: int | None
    cores: int | None
    """Physical cores."""
    threads: int | None
    numa_nodes: int | None
    flags: list[str]
    """The instruction sets it has, of those that matter for speed."""
    is_virtual: bool | None
    """Whether this is a virtual machine."""
    governor: str | None
    """The frequency governor: ``performance``."""
    turbo: bool | None
    """Whether turbo is enabled."""


def observe_cpu(root: Path) -> Cpu:
    """Read the processor's description from the files under ``root``."""
    listed = text_of(root / "proc/cpuinfo")
    processors, flags = _processors(listed), flags_of(listed)
    first = processors[0] if processors else {}
    nodes = list((root / "sys/devices/system/node").glob("node[0-9]*"))
    return Cpu(
        model=first.get("model name") or first.get("CPU part") or platform.processor() or "unknown",
        architecture=platform.machine(),
        sockets=_distinct(processors, "physical id"),
        cores=_distinct(processors, "physical id", "core id"),
        threads=len(processors) or 1,
        numa_nodes=len(nodes) or None,
        flags=[flag for flag in FLAGS if flag in flags],
        is_virtual="hypervisor" in flags,
        governor=text_of(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        turbo=_turbo(root / "sys/devices/system/cpu"),
    )


def _processors(cpuinfo: str) -> list[Mapping[str, str]]:
    """Return one mapping per hardware thread; Arm's file ends with a paragraph that is not one."""
    found = [dict(re.findall(r"^([^:\n]*?)\s*: *(.*)$", text, re.MULTILINE)) for text in cpuinfo.split("\n\n")]
    return [fields for fields in found if "processor" in fields]


def _distinct(processors: list[Mapping[str, str]], *keys: str) -> int | None:
    """Return the number of distinct combinations of the keys' values; None where a processor lacks a key."""
    if not processors or any(key not in fields for fields in processors for key in keys):
        return None
    return len({tuple(fields[key] for key in keys) for fields in processors})


def _turbo(cpus: Path) -> bool | None:
    if boost := text_of(cpus / "cpufreq/boost"):
        return boost == "1"
    if off := text_of(cpus / "intel_pstate/no_turbo"):
        return off == "0"
    return None
