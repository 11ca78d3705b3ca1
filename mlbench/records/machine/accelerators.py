"""Finds the machine's accelerators, without importing a runtime."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlbench.records.stored import Stored
from mlbench.system.nvidia_smi import ask_nvidia_smi
from mlbench.system.processor import text_of

_FIELDS = (
    *("name", "memory.total", "driver_version", "power.limit", "clocks.max.sm"),
    *("ecc.mode.current", "mig.mode.current"),
)
_UNKNOWN_FIELD = re.compile(r'Field "([\w.]+)" is not a valid field')
_NO_DEVICES = "No devices were found"
_UNKNOWN = "[N/A]"
_VERSION = re.compile(r"\d+(\.\d+)+|\[[^\]]*\]")
"""A driver's version, or a cell without a value."""

_DEVICE_FILES = ("nvidia[0-9]*", "kfd", "dri/renderD*", "accel/accel*", "davinci[0-9]*")
"""NVIDIA, AMD, any graphics or compute driver of Linux, Linux's own accelerator class, Huawei."""


class Accelerator(Stored):
    """A device as its driver describes it; null where the driver does not say."""

    name: str
    memory_bytes: int | None
    driver: str
    power_limit_w: float | None
    max_clock_mhz: float | None
    ecc: bool | None
    mig: bool | None
    """Whether it is partitioned, or a partition (AMD)."""


def observe_nvidia_gpus(root: Path) -> tuple[list[Accelerator], str]:
    """Return the GPUs that nvidia-smi describes, else those that the driver's files name; and why it does not answer.

    A field that an old nvidia-smi does not know is left out. The reason is empty where nothing went wrong.
    """
    fields = list(_FIELDS)
    answer = ask_nvidia_smi(*_query(fields))
    while (unknown := _UNKNOWN_FIELD.search("\n".join([*answer.lines, answer.problem]))) and unknown[1] in fields:
        fields.remove(unknown[1])
        answer = ask_nvidia_smi(*_query(fields))
    rows = [row for line in answer.lines if (row := _row(line, fields))]
    problem = answer.problem
    if answer.lines and not rows and not problem:
        problem = f"nvidia-smi: {answer.lines[0]}"
    if _NO_DEVICES in problem:
        return [], ""
    return [_accelerator(row) for row in rows] or _read_driver_files(root / "proc/driver/nvidia"), problem


def device_files(root: Path) -> list[str]:
    """Return the device files of accelerators, with or without a working driver."""
    found = [path for pattern in _DEVICE_FILES for path in (root / "dev").glob(pattern)]
    return sorted(f"/{path.relative_to(root)}" for path in found)


def _query(fields: Sequence[str]) -> tuple[str, str]:
    return f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"


def _row(line: str, fields: Sequence[str]) -> Mapping[str, str]:
    """Return the cells of a line by field; empty where it describes no GPU, as a warning does not."""
    cells = [cell.strip() for cell in line.rsplit(",", len(fields) - 1)]
    row = dict(zip(fields, cells, strict=False))
    return row if len(cells) == len(fields) and _VERSION.fullmatch(row.get("driver_version", _UNKNOWN)) else {}


def _accelerator(row: Mapping[str, str]) -> Accelerator:
    memory_mib = _number(row.get("memory.total", ""))
    return Accelerator(
        name=row["name"],
        memory_bytes=None if memory_mib is None else int(memory_mib) * 2**20,
        driver=row.get("driver_version", _UNKNOWN),
        power_limit_w=_number(row.get("power.limit", "")),
        max_clock_mhz=_number(row.get("clocks.max.sm", "")),
        ecc=_switch(row.get("ecc.mode.current", "")),
        mig=_switch(row.get("mig.mode.current", "")),
    )


def _read_driver_files(folder: Path) -> list[Accelerator]:
    """Return the GPUs that the kernel's driver lists, which needs no tool; of them it says the model alone."""
    version = re.search(r"Module.*?\s(\d+(?:\.\d+)+)\s", text_of(folder / "version"))
    described = [text_of(file) for file in sorted(folder.glob("gpus/*/information"))]
    models = [found[1] for text in described if (found := re.search(r"^Model:\s*(\S.*)$", text, re.MULTILINE))]
    unknown = dict.fromkeys(("memory_bytes", "power_limit_w", "max_clock_mhz", "ecc", "mig"))
    driver = version[1] if version else _UNKNOWN
    return [Accelerator.model_validate({"name": name, "driver": driver, **unknown}) for name in models]


def _number(cell: str) -> float | None:
    try:
        found = float(cell)
    except ValueError:  # [N/A]
        return None
    return found if math.isfinite(found) else None


def _switch(cell: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(cell)
