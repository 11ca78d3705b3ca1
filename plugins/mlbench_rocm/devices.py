"""Finds AMD GPUs and torch's build from files, without loading torch."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

DRIVER_FILE = "dev/kfd"
"""Through it ROCm reaches the GPUs; the kernel's amdgpu driver makes it."""

TOPOLOGY = "sys/class/kfd/kfd/topology/nodes"
"""A folder for each processor, GPUs among them."""


def architectures(root: Path = Path("/")) -> list[str]:
    """Return the architecture of each AMD GPU, in the driver's order: ``gfx942``."""
    nodes = sorted(root.glob(f"{TOPOLOGY}/*/properties"), key=lambda file: int(file.parent.name))
    return [_architecture(version) for version in map(_target_version, nodes) if version]


def obstacles(root: Path = Path("/")) -> Iterator[str]:
    """Yield reasons why programs cannot use the GPUs of this machine."""
    driver = root / DRIVER_FILE
    if not driver.exists():
        yield f"no AMD GPU here (no /{DRIVER_FILE})"
    elif not os.access(driver, os.R_OK | os.W_OK):
        yield f"no permission for /{DRIVER_FILE} (join the groups render and video)"
    elif not architectures(root):
        yield "the amdgpu driver lists no GPU"


def hip_version() -> str:
    """Return the version of HIP that the installed torch was built for; empty where it was not, or is missing."""
    found = find_spec("torch")
    if not found or not found.origin:
        return ""
    # the module's source, since the distribution's version says it only in torch's own builds
    file = Path(found.origin).parent / "version.py"
    built_for = re.search(r"^hip\b.*= ['\"](.+)['\"]", file.read_text(), flags=re.MULTILINE) if file.is_file() else None
    return built_for[1] if built_for else ""


def _target_version(properties: Path) -> int:
    """Return a processor's ``gfx_target_version``: 0 where it is not a GPU."""
    found = re.search(r"^gfx_target_version (\d+)$", properties.read_text(), flags=re.MULTILINE)
    return int(found[1]) if found else 0


def _architecture(version: int) -> str:
    """Spell a target version: 90402 is gfx942 and 90010 gfx90a, since minor and stepping are hexadecimal digits."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
