"""Which accelerators the machine has, without importing a runtime."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from mlbench.records.stored import Stored

_FIELDS = "name,memory.total,driver_version,power.limit,clocks.max.sm,ecc.mode.current,mig.mode.current"
_TIMEOUT_S = 10
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


def observe_nvidia_gpus() -> list[Accelerator]:
    """Ask nvidia-smi; empty if there is none, or it does not answer in time."""
    if not (command := shutil.which("nvidia-smi")):
        return []
    try:
        answer = subprocess.run(
            [command, f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [_accelerator(line) for line in answer.splitlines() if line.count(",") == _FIELDS.count(",")]


def device_files(root: Path) -> list[str]:
    """Return the device files of accelerators, with or without a working driver."""
    found = [path for pattern in _DEVICE_FILES for path in (root / "dev").glob(pattern)]
    return sorted(f"/{path.relative_to(root)}" for path in found)


def _accelerator(line: str) -> Accelerator:
    name, memory_mib, driver, power_w, clock_mhz, ecc, mig = (cell.strip() for cell in line.split(","))
    memory = _number(memory_mib)
    return Accelerator(
        name=name,
        memory_bytes=None if memory is None else int(memory) * 2**20,
        driver=driver,
        power_limit_w=_number(power_w),
        max_clock_mhz=_number(clock_mhz),
        ecc=_switch(ecc),
        mig=_switch(mig),
    )


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:  # [N/A]
        return None


def _switch(cell: str) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(cell)
