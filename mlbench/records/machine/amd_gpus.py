"""AMD GPUs, from the driver's files: no tool is installed on every such machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlbench.records.machine.accelerators import Accelerator
from mlbench.system.processor import text_of

_TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
"""A folder for each processor that ROCm reaches, GPUs among them."""

_WHOLE = "SPX"
"""How the driver calls a GPU that is not split."""


def observe_amd_gpus(root: Path) -> list[Accelerator]:
    """Return the GPUs that ROCm reaches, in the driver's order; of one that is split, each part."""
    folders = sorted((root / _TOPOLOGY).glob("[0-9]*"), key=lambda folder: int(folder.name))
    nodes = ((folder, _numbers(text_of(folder / "properties"))) for folder in folders)
    return [_accelerator(root, folder, numbers) for folder, numbers in nodes if numbers.get("gfx_target_version")]


def _accelerator(root: Path, node: Path, numbers: Mapping[str, int]) -> Accelerator:
    device = root / f"sys/class/drm/renderD{numbers.get('drm_render_minor', 0)}/device"
    limits_uw = [int(text) for text in map(text_of, sorted(device.glob("hwmon/hwmon*/power1_cap"))) if text.isdigit()]
    partition = text_of(device / "current_compute_partition")
    return Accelerator(
        name=text_of(device / "product_name") or f"AMD GPU {_architecture(numbers['gfx_target_version'])}",
        memory_bytes=sum(_memories_bytes(node)) or None,
        driver=text_of(root / "sys/module/amdgpu/version") or _kernel(root),
        power_limit_w=limits_uw[0] / 1e6 if limits_uw else None,
        max_clock_mhz=numbers.get("max_engine_clk_fcompute") or None,
        ecc=None,
        mig=partition != _WHOLE if partition else None,
    )


def _numbers(properties: str) -> Mapping[str, int]:
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", properties, re.MULTILINE)}


def _memories_bytes(node: Path) -> Iterator[int]:
    """Yield the sizes of the memories on the GPU."""
    for file in sorted(node.glob("mem_banks/*/properties")):
        yield _numbers(text_of(file)).get("size_in_bytes", 0)


def _kernel(root: Path) -> str:
    """Return what a driver that came with the kernel goes by; the files of another have a version."""
    release = text_of(root / "proc/sys/kernel/osrelease")
    return f"amdgpu of Linux {release}" if release else "amdgpu"


def _architecture(version: int) -> str:
    """Spell a target version: 90402 is gfx942 and 90010 gfx90a, since minor and stepping are hexadecimal digits."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
